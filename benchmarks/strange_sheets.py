"""Offers with one strange thing each, and a truth: read rightly, asked about by the cell that decides, refused, or read wrong.

python benchmarks/strange_sheets.py [--kinds first|second] [--show]

An ordinary offer of three servers in one of six languages; each case changes cells of it. Where no reader could know
the amounts, the truth is None: the cell that decides must be asked about.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from office_sheets import draw

from procure.errors import TableError
from procure.packages.quote_file import OfferReading, read_quote_file

RATE = {"EUR": 1.25, "GBP": 1.25, "USD": 1.0}
HEADS = {
    "de": ["Bezeichnung", "Kerne", "Arbeitsspeicher (GB)", "GPUs", "Einzelpreis (EUR)"],
    "en": ["Description", "Cores", "Memory (GB)", "GPUs", "Unit price (EUR)"],
    "fr": ["Désignation", "Nombre de cœurs", "Mémoire (Go)", "GPU", "Prix unitaire HT (EUR)"],
    "es": ["Descripción", "Núcleos", "Memoria (GB)", "GPUs", "Precio unitario (EUR)"],
    "it": ["Descrizione", "Core", "Memoria (GB)", "GPU", "Prezzo unitario (EUR)"],
    "nl": ["Omschrijving", "Kernen", "Geheugen (GB)", "GPUs", "Stuksprijs (EUR)"],
}
ROWS = [
    ["PowerEdge R6625", 64, 768, 0, 14_960],
    ["ThinkSystem SR645", 128, 1536, 0, 24_880],
    ["ProLiant DL385 Gen11", 64, 768, 4, 98_800],
]
PRICES = (14_960, 24_880, 98_800)


@dataclass
class Case:
    """One offer: what is changed of the ordinary one, the cells that decide, and the truth."""

    lang: str
    cells: dict[str, Any]
    key: str = ""
    """Cells of which one must be named, separated by spaces; of a sheet, its name with ``!``."""
    prices: tuple[float, ...] | None = PRICES
    """Euros of each server; None = nobody can know."""
    order: float = 0
    """Euros of the lines that an order has once; ``percent`` is taken off all servers."""
    node: float = 0
    percent: float = 0
    figures: dict[int, tuple[int, float, int]] = field(default_factory=dict)
    """Cores, GB and GPUs of servers, by row from 0, that are others than usual."""
    notes: dict[str, str] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)
    hidden: str = ""
    merged: str = ""
    struck: str = ""
    sheets: dict[str, dict[str, Any]] = field(default_factory=dict)
    title: str = "Sheet1"
    page: str = ""
    """Text of the page's footer; ``part`` is a cell of which the first half is struck out."""
    part: str = ""
    kind: str = "xlsx"
    rows: list[list[Any]] = field(default_factory=list)
    """The whole sheet, where it is no change of the ordinary one."""


def ask(lang: str, cells: dict[str, Any], key: str = "", **more: Any) -> Case:
    """Make a case of which nobody can know the amounts."""
    return Case(lang, cells, key or " ".join(cells), None, **more)


def fine(lang: str, cells: dict[str, Any], **more: Any) -> Case:
    """Make a case that is to be read as it stands."""
    return Case(lang, cells, **more)


FIRST = [
    # Headings that change what an amount is
    ask("de", {"E3": "Einzelpreis (EUR) ab"}),
    ask("de", {"E3": "Einzelpreis Zweiersatz (EUR)"}),
    ask("en", {"E3": "Unit price for two (EUR)"}),
    ask("en", {"E3": "Unit price bare-bones (EUR)"}),
    ask("en", {"E3": "Indicative unit price (EUR)"}),
    ask("fr", {"E3": "Prix unitaire à partir de (EUR)"}),
    ask("fr", {"E3": "Prix unitaire remisé 10 % en sus (EUR)"}),
    ask("es", {"E3": "Precio unitario por pareja (EUR)"}),
    ask("it", {"E3": "Prezzo unitario alla coppia (EUR)"}),
    ask("nl", {"E3": "Stuksprijs per duo (EUR)"}),
    ask("de", {"B3": "Kerne je Einschub"}),
    ask("en", {"B3": "Cores (half)"}),
    ask("de", {"C3": "Arbeitsspeicher (GB) je Blade-Hälfte"}),
    ask("en", {"C3": "Memory (GB) upgradeable to"}),
    ask("nl", {"C3": "Geheugen (GB) maximaal uitbreidbaar"}),
    ask("en", {"D3": "GPU slots"}),
    ask("de", {"D3": "GPUs (vorbereitet)"}),
    ask("en", {"F3": "Sold as", "F4": "twin pack", "F5": "single", "F6": "single"}, "F3 F4"),
    ask("de", {"F3": "Gebinde", "F4": 2, "F5": 2, "F6": 1}, "F3"),
    ask("de", {"F3": "Zustand", "F4": "gebraucht", "F5": "neu", "F6": "neu"}, "F3 F4"),
    ask("fr", {"F3": "Conditionnement", "F4": "par 4"}, "F3 F4"),
    ask("es", {"F3": "Recargo (EUR)", "F4": 950}, "F3"),
    ask("en", {"F3": "Surcharge", "F4": "12 %"}, "F3 F4"),
    ask("en", {"F3": "Handling fee (EUR)", "F4": 250, "F5": 250, "F6": 250}, "F3"),
    ask("de", {"F3": "Montageaufschlag", "F4": 450}, "F3"),
    ask("it", {"F3": "Contributo RAEE (EUR)", "F4": 22.5}, "F3"),
    ask("fr", {"F3": "Éco-participation (EUR)", "F4": 31}, "F3"),
    ask("nl", {"F3": "Verwijderingsbijdrage", "F4": 12}, "F3"),
    ask("en", {"F3": "Net after rebate (EUR)", "F4": 13_000, "F5": 22_000, "F6": 90_000}, "F3 E3"),
    ask("de", {"F3": "Ihr Vorteilspreis (EUR)", "F4": 13_000, "F5": 22_000, "F6": 90_000}, "F3 E3"),
    # Names and cells
    ask("de", {"A4": "PowerEdge C6620 im Viererpack"}),
    ask("de", {"A4": "PowerEdge R6625 nur Gehäuse"}),
    ask("en", {"A4": "PowerEdge R6625 bundle of ten"}),
    ask("en", {"A4": "PowerEdge R6625 (refurbished, two for one)"}),
    ask("en", {"A4": "Upgrade kit for PowerEdge R6625"}),
    ask("fr", {"A4": "PowerEdge R6625 (lot indivisible)"}),
    ask("es", {"A4": "Ampliación de PowerEdge R6625"}),
    ask("it", {"A4": "PowerEdge R6625 in alternativa al precedente"}),
    ask("nl", {"A4": "PowerEdge R6625 (vervalt)"}),
    ask("de", {"A4": "entfällt: PowerEdge R6625"}),
    ask("en", {"A4": "Option 2: PowerEdge R6625 instead"}),
    ask("en", {"C4": "768 GB across both"}),
    ask("de", {"C4": "768 GB gespiegelt"}),
    ask("en", {"B4": "64 (32 licensed)"}),
    ask("de", {"D6": "4x H100 (Beistellung)"}),
    ask("en", {"D6": "4x H100 customer supplied"}),
    ask("fr", {"D6": "4x H100 en prêt"}),
    ask("en", {"E4": "from 14,960"}),
    ask("en", {"E4": "14,960 TBC"}),
    ask("de", {"E4": "ca. 14.960"}),
    ask("de", {"E4": "2 für 14.960"}),
    ask("es", {"E4": "14.960 la pareja"}),
    ask("en", {"F4": "old price"}),
    ask("de", {"F4": "Ausstellungsstück, nur zusammen mit Pos. 2"}),
    ask("en", {"F4": -500}),
    ask("en", {"F4": 0.95, "F5": 0.95, "F6": 0.9}, "F4"),
    # Rows between
    ask("de", {"A5": "Folgende Positionen nur alternativ", "B5": None, "C5": None, "D5": None, "E5": None}, "A5"),
    ask("en", {"A5": "Second-hand stock", "B5": None, "C5": None, "D5": None, "E5": None}, "A5"),
    ask("fr", {"A5": "Variante (non cumulable)", "B5": None, "C5": None, "D5": None, "E5": None}, "A5"),
    ask("nl", {"A5": "Per twee te bestellen", "B5": None, "C5": None, "D5": None, "E5": None}, "A5"),
    # Lines of the order
    ask("en", {"A7": "Parallel storage, first of three instalments", "E7": 40_000}, "A7"),
    ask("de", {"A7": "Speichersystem (Anzahlung)", "E7": 40_000}, "A7"),
    ask("de", {"A7": "Lieferung je angefangene Palette", "E7": 180}, "A7"),
    ask("en", {"A7": "Delivery, each way", "E7": 180}, "A7"),
    ask("fr", {"A7": "Livraison par palette", "E7": 180}, "A7"),
    ask("it", {"A7": "Installazione a giornata", "E7": 900}, "A7"),
    ask("es", {"A7": "Soporte, cuota trimestral", "E7": 900}, "A7"),
    ask("nl", {"A7": "Onderhoud, kwartaalbedrag", "E7": 900}, "A7"),
    ask("en", {"A7": "Training (day rate)", "E7": 1_200}, "A7"),
    ask("en", {"A7": "Storage trade-in credit", "E7": 4_000}, "A7"),
    ask("de", {"A7": "Rückkauf Altspeicher", "E7": 4_000}, "A7"),
    ask("fr", {"A7": "Reprise ancien stockage", "E7": 4_000}, "A7"),
    ask("en", {"A7": "Network (already in the above)", "E7": 4_000}, "A7"),
    ask("de", {"A7": "Netzwerk, falls gewünscht", "E7": 4_000}, "A7"),
    ask("en", {"A7": "Rebate 4% when paid upfront"}, "A7"),
    ask("de", {"A7": "Treuerabatt 4 % im Folgejahr"}, "A7"),
    ask("es", {"A7": "Descuento 5 % segunda unidad"}, "A7"),
    ask("it", {"A7": "Sconto 5 % solo storage"}, "A7"),
    ask("fr", {"A7": "Remise 5 % hors GPU"}, "A7"),
    # Sentences around the table
    ask("en", {"A8": "Prices are quoted by the dozen."}, "A8"),
    ask("en", {"A8": "Amounts shown have to be doubled for redundancy."}, "A8"),
    ask("de", {"A8": "Die Preise gelten für jeweils zwei Systeme."}, "A8"),
    ask("de", {"A8": "Zuzüglich Kupferzuschlag nach Tagespreis."}, "A8"),
    ask("fr", {"A8": "Les montants s'entendent pour une paire de serveurs."}, "A8"),
    ask("es", {"A8": "Los precios son orientativos y no vinculantes."}, "A8"),
    ask("it", {"A8": "I prezzi si intendono a coppie."}, "A8"),
    ask("nl", {"A8": "Bedragen gelden voor telkens twee stuks."}, "A8"),
    ask("en", {"F1": "Discount level", "G1": 0.12}, "F1 G1"),
    ask("de", {"A2": "Nachlass", "B2": "7 %"}, "A2 B2"),
    ask("en", {"A2": "Multiplier", "B2": 1.07}, "A2 B2"),
    ask("fr", {"A2": "Coefficient", "B2": 0.9}, "A2 B2"),
    # Other places
    ask("en", {}, "Terms!A1", sheets={"Terms": {"A1": "All prices shown elsewhere are per pair of nodes."}}),
    ask("de", {}, "Konditionen!A2", sheets={"Konditionen": {"A1": "Konditionen", "A2": "Auf alle Preise 6 % Aufschlag"}}),
    ask("en", {}, "Cover!A2", sheets={"Cover": {"A1": "Offer", "A2": "All prices in TEUR"}}),
    ask("en", {}, "E4", notes={"E4": "for the pair"}),
    ask("en", {}, "E4", formats={"E4": '#,##0" a pair"'}),
    ask("en", {}, "A4", formats={"A4": '@" (two nodes)"'}),
    ask("en", {}, "E4", struck="E4"),
    ask("en", {}, "E4", merged="E4:E5"),
    ask("de", {}, "Doppelpreise!", title="Doppelpreise"),
    Case("en", {"F3": "Purchase cost", "F4": 9_000}, "F3", hidden="F"),
    # Ordinary ones, to be read
    fine("de", {"A1": "Angebot Nr. 2026-0815 vom 12.11.2026", "A2": "Gültig bis 31.12.2026"}),
    fine("en", {"A1": "Quotation", "B1": "Date", "C1": "2026-11-12", "A8": "Prices exclude VAT. Delivery 4-6 weeks."}),
    fine("fr", {"A1": "Devis n° 2026-113", "A8": "Livraison sous 6 semaines. Garantie 5 ans sur site."}),
    fine("es", {"A1": "Oferta económica", "A8": "Precios sin IVA. Entrega en 6 semanas."}),
    fine("it", {"A1": "Offerta n. 77", "A8": "Prezzi IVA esclusa. Consegna in 30 giorni."}),
    fine("nl", {"A1": "Offerte 2026-44", "A8": "Prijzen excl. BTW. Levertijd 6 weken."}),
    fine("de", {"F3": "Festplatten", "F4": "2x 960 GB NVMe", "F5": "2x 1,92 TB NVMe", "F6": "2x 3,84 TB NVMe"}),
    fine("en", {"F3": "Network", "F4": "1x NDR200 InfiniBand", "F5": "1x NDR200 InfiniBand", "F6": "4x NDR400 InfiniBand"}),
    fine("en", {"F3": "Warranty", "F4": "5 years NBD on-site", "F5": "5 years NBD on-site", "F6": "5 years NBD on-site"}),
    fine("de", {"F3": "Lieferzeit", "F4": "6 Wochen", "F5": "8 Wochen", "F6": "12 Wochen"}),
    fine("fr", {"F3": "Délai de livraison", "F4": "6 semaines", "F5": "6 semaines", "F6": "8 semaines"}),
    fine("en", {"A4": "Compute node", "A5": "Large-memory node", "A6": "GPU node"}),
    fine("de", {"A4": "Rechenknoten", "A5": "Großspeicherknoten", "A6": "GPU-Knoten"}),
    fine("es", {"A4": "Nodo de cálculo", "A5": "Nodo de memoria alta", "A6": "Nodo GPU"}),
    fine("it", {"A4": "Nodo di calcolo", "A5": "Nodo con grande memoria", "A6": "Nodo GPU"}),
    fine("nl", {"A4": "Rekenknoop", "A5": "Knoop met veel geheugen", "A6": "GPU-knoop"}),
    fine("en", {"D6": "4x NVIDIA H100 NVL 94GB"}),
    fine("de", {"A7": "InfiniBand-Switch 64 Ports", "E7": 21_500}, order=21_500),
    fine("en", {"A7": "Delivery and installation", "E7": 3_200}, order=3_200),
    fine("fr", {"A7": "Installation et mise en service", "E7": 3_200}, order=3_200),
    fine("it", {"A7": "Trasporto e installazione", "E7": 3_200}, order=3_200),
    fine("es", {"A7": "Almacenamiento Lustre 500 TB", "E7": 88_000}, order=88_000),
    fine("nl", {"A7": "Installatie per node", "E7": 150}, node=150),
    fine("de", {"A7": "Projektrabatt 3 %"}, percent=3),
    fine("en", {"F3": "Processor", "F4": "2x AMD EPYC 9354 32C 3.25 GHz", "F5": "2x AMD EPYC 9554 64C 3.1 GHz", "F6": "2x AMD EPYC 9354 32C 3.25 GHz"}),
    fine("de", {"F3": "Prozessor", "F4": "2x Intel Xeon Gold 6430, 2,1 GHz"}),
    fine("en", {"F3": "Rack units", "F4": 1, "F5": 1, "F6": 2, "G3": "Power (W)", "G4": 800, "G5": 900, "G6": 3100}),
    fine("en", {"A8": "Contact: sales@example.com, phone +44 20 7946 0000"}),
]  # fmt: skip
"""Written before the reader asked about every word that it does not know."""

NONE3 = {"B5": None, "C5": None, "D5": None, "E5": None}
SECOND = [
    # Words around counts, in cells of other columns
    ask("de", {"F3": "Besonderheit", "F6": "Auslauf, Restposten"}, "F3 F6"),
    ask("en", {"F3": "Comment", "F5": "superseded by row 6"}, "F5"),
    ask("en", {"F3": "Comment", "F5": "price incl. second unit"}, "F5"),
    ask("fr", {"F3": "Remarque", "F4": "prix pour le duo"}, "F4"),
    ask("it", {"F3": "Note", "F4": "si vende solo in blocco"}, "F4"),
    ask("es", {"F3": "Observaciones", "F4": "sin memoria"}, "F4"),
    ask("nl", {"F3": "Opmerking", "F4": "exclusief geheugen"}, "F4"),
    ask("de", {"F3": "Bemerkung", "F4": "Speicher wird beigestellt"}, "F4"),
    ask("de", {"F3": "Gruppe", "F4": "A", "F5": "A", "F6": "Ersatz für A"}, "F6"),
    ask("en", {"F3": "Status", "F4": "withdrawn"}, "F3 F4"),
    ask("en", {"F3": "Include?", "F4": "no", "F5": "yes", "F6": "yes"}, "F3"),
    ask("de", {"F3": "Auswahl", "F4": "x", "F5": None, "F6": "x"}, "F3"),
    ask("fr", {"F3": "Retenu", "F4": "oui", "F5": "non", "F6": "oui"}, "F3"),
    ask("en", {"F3": "Factor", "F4": 1.1, "F5": 1.1, "F6": 1.2}, "F3"),
    ask("en", {"F3": "Delivery", "F4": 350, "F5": 350, "F6": 700}, "F3"),
    ask("de", {"F3": "Garantie 5 Jahre", "F4": 1_200, "F5": 1_500, "F6": 6_000}, "F3"),
    ask("en", {"F3": "Network card", "F4": 850, "F5": 850, "F6": 1_700}, "F3"),
    ask("es", {"F3": "Canon digital (EUR)", "F4": 5.45}, "F3"),
    ask("nl", {"F3": "Toeslag", "F4": "3%"}, "F3 F4"),
    ask("it", {"F3": "Listino scontato (EUR)", "F4": 13_000, "F5": 22_000, "F6": 90_000}, "F3 E3"),
    # Figures
    ask("en", {"B4": "64+64"}, "B4"),
    ask("en", {"B4": "64/128"}, "B4"),
    ask("de", {"B4": "64 ab Werk, 128 nach Umbau"}, "B4"),
    ask("en", {"C4": "768 (of 1536)"}, "C4"),
    ask("de", {"C4": "~768"}, "C4"),
    ask("en", {"C4": "768 GB per socket"}, "C4"),
    ask("de", {"C4": "12x64 GB, davon 2 Reserve"}, "C4"),
    ask("en", {"D6": "4+4"}, "D6"),
    ask("en", {"D6": "up to 4x H100"}, "D6"),
    ask("en", {"D6": "4x H100 on loan"}, "D6"),
    ask("en", {"E4": "14,960 or best offer"}, "E4"),
    ask("en", {"E4": "14,960 p.m."}, "E4"),
    ask("de", {"E4": "14.960 zzgl. Fracht"}, "E4"),
    ask("en", {}, "E4", formats={"E4": '"from "#,##0'}),
    ask("en", {}, "B4", formats={"B4": '0" per CPU"'}),
    ask("en", {"E4": "15900 / 14960"}, "E4", part="E4"),
    # Names
    ask("en", {"A4": "2 PowerEdge R6625"}, "A4"),
    ask("de", {"A4": "PowerEdge R6625 (2)"}, "A4"),
    ask("en", {"A4": "PowerEdge R6625 spare"}, "A4"),
    ask("fr", {"A4": "PowerEdge R6625 + 1 offert"}, "A4"),
    ask("nl", {"A4": "Huurserver R6625"}, "A4"),
    ask("de", {"A4": "Mietknoten R6625"}, "A4"),
    ask("de", {"A4": "PowerEdge R6625 ½ Ausbau"}, "A4"),
    # Rows
    ask("en", {"A5": "The next items replace items 1 and 2", **NONE3}, "A5"),
    ask("de", {"A5": "B. Wahlpositionen", **NONE3}, "A5"),
    ask("es", {"A5": "Segunda propuesta (excluye la primera)", **NONE3}, "A5"),
    ask("en", {"A7": "Credit note 2025-17", "E7": -3_000}, "A7"),
    ask("de", {"A7": "Inbetriebnahme nach Aufwand", "E7": 130}, "A7"),
    ask("en", {"A7": "Installation, capped at", "E7": 5_000}, "A7"),
    ask("fr", {"A7": "Formation (par personne)", "E7": 600}, "A7"),
    ask("it", {"A7": "Garanzia estesa, quota annua", "E7": 600}, "A7"),
    ask("en", {"A7": "InfiniBand switch shared with project B", "E7": 9_000}, "A7"),
    ask("de", {"A7": "Rabatt Gegengeschäft", "E7": -4_000}, "A7"),
    ask("en", {"A7": "Discount 5 % capped at EUR 2000"}, "A7"),
    # Beside the table
    ask("de", {"A9": "Fußnote: Aufstellung in Zweiergruppen, Preis je Gruppe."}, "A9"),
    ask("en", {"A9": "Quoted figures are for half of the stated quantity."}, "A9"),
    ask("en", {"A9": "Prices assume a purchase of the whole rack."}, "A9"),
    ask("fr", {"A9": "Les prix s'entendent par an."}, "A9"),
    ask("de", {"A9": "Preise für ein Jahr."}, "A9"),
    ask("es", {"A9": "Precios para el clúster completo."}, "A9"),
    ask("nl", {"A9": "Op de prijzen komt nog 4 % index."}, "A9"),
    ask("it", {"A9": "I prezzi non comprendono i processori."}, "A9"),
    ask("en", {"G5": "x 2"}, "G5"),
    ask("en", {"G4": 2, "G5": 2, "G6": 2}, "G4"),
    ask("en", {"G3": "Prices per enclosure"}, "G3"),
    ask("en", {}, "page", page="All prices are per pair of nodes"),
    ask("de", {}, "Optionen!", title="Optionen"),
    ask("en", {}, "A4", notes={"A4": "withdrawn, see row 6"}),
    ask("en", {"F3": "Comment", "F4": "price of a pair"}, "line_4", kind="csv"),
    ask("de", {"A9": "Preise je Zweiergruppe"}, "line_9", kind="csv"),
    ask("en", {}, "Notes!A1", sheets={"Notes": {"A1": "Every price has to be multiplied by 1.07"}}),
    # Ordinary ones, to be read
    fine("de", {"A2": "Kundennummer: 10234, Ansprechpartner: Dr. Weber, Tel. 0551 201-0"}),
    fine("en", {"A9": "We thank you for your request and offer as follows."}),
    fine("de", {"A9": "Zahlung: 30 Tage netto. Lieferung frei Haus."}),
    fine("fr", {"A9": "Prix hors TVA, valables 3 mois. Livraison comprise."}),
    fine("es", {"A9": "Validez de la oferta: 60 días. IVA no incluido."}),
    fine("it", {"A9": "Validità offerta: 60 giorni. Pagamento 30 giorni data fattura."}),
    fine("nl", {"A9": "Geldig tot 31-12-2026. Betaling binnen 30 dagen."}),
    fine("de", {"F3": "Netzteile", "F4": "2x 1400 W redundant, Titanium", "F5": "2x 1400 W redundant, Titanium", "F6": "2x 2400 W redundant, Titanium"}),
    fine("en", {"F3": "Boot drive", "F4": "2x 480GB M.2 SATA (RAID 1)", "G3": "Scratch", "G4": "1x 3.84TB NVMe U.2 SSD"}),
    fine("fr", {"F3": "Stockage local", "F4": "2 x 960 Go SSD SATA", "G3": "Réseau", "G4": "2 x 25 GbE SFP28"}),
    fine("es", {"F3": "Disco", "F4": "2x SSD 960 GB", "G3": "Garantía", "G4": "5 años NBD in situ"}),
    fine("it", {"F3": "Disco", "F4": "2 SSD NVMe da 960 GB", "G3": "Garanzia", "G4": "5 anni on-site"}),
    fine("nl", {"F3": "Opslag", "F4": "2x 960 GB NVMe", "G3": "Garantie", "G4": "5 jaar on-site"}),
    fine("de", {"F3": "Bauform", "F4": "1 HE", "F5": "1 HE", "F6": "2 HE"}),
    fine("en", {"F3": "Part number", "F4": "210-BFUT", "F5": "7D9ACTO1WW", "F6": "P55080-B21"}),
    fine("en", {"F3": "Management", "F4": "iDRAC9 Enterprise", "F5": "XCC Platinum", "F6": "iLO 6 Advanced"}),
    fine("de", {"F3": "Betriebssystem", "F4": "ohne", "G3": "Hersteller", "G4": "Dell", "G5": "Lenovo", "G6": "HPE"}),
    fine("en", {"A4": "Dell PowerEdge R6625, 1U rack server", "A5": "Lenovo ThinkSystem SR645 V3", "A6": "HPE ProLiant DL385 Gen11 GPU server"}),
    fine("de", {"A4": "CPU-Knoten Typ 1", "A5": "CPU-Knoten Typ 2", "A6": "GPU-Knoten"}),
    fine("fr", {"A4": "Nœud de calcul standard", "A5": "Nœud grande mémoire", "A6": "Nœud GPU"}),
    ask("en", {"A7": "400 kVA UPS", "E7": 41_000}, "A7"),
    fine("de", {"A7": "Passive Kupferkabel QSFP 2 m", "E7": 3_000}, order=3_000),
    fine("en", {"A7": "Rack PDU 32A, switched", "E7": 900}, order=900),
    fine("de", {"A7": "Vor-Ort-Installation und Einweisung", "E7": 2_400}, order=2_400),
    fine("it", {"A7": "Sconto 3 %"}, percent=3),
    fine("nl", {"A7": "Korting 3 %"}, percent=3),
    fine("en", {"A1": "Dell Technologies quotation for Uppsala University", "A2": "Quote ID Q-2026-118, version 2"}),
    fine("en", {"A1": "Quotation"}, kind="csv"),
    fine("de", {"F3": "Prozessor", "F4": "2x AMD EPYC 9354, 3,25 GHz, 280 W TDP", "A8": "Alle Preise netto in EUR"}, kind="csv"),
]  # fmt: skip
"""Written after the reader asked about every word that it does not know, of other kinds."""

BILL = ["Pos.", "Menge", "Bezeichnung", "Kerne", "RAM", "GPUs", "Einzelpreis €", "Gesamtpreis €"]
THIRD = [
    # Words that are known, in a sense that changes an amount
    ask("en", {"E3": "Unit price node without memory (EUR)"}, "E3"),
    ask("en", {"F3": "Memory", "F4": 2_400, "F5": 4_800, "F6": 2_400}, "F3 C3"),
    ask("en", {"F3": "GPU (EUR)", "F6": 80_000}, "F3"),
    ask("en", {"F3": "Rack", "F4": 1, "F5": 1, "F6": 1, "A9": "Prices are for the rack."}, "A9"),
    ask("de", {"A9": "Die Preise sind für das System mit zwei Knoten."}, "A9"),
    ask("de", {"A9": "Preise für Server mit Speicher und GPU im Cluster."}, "A9"),
    ask("en", {"A9": "Delivery and installation 350 EUR"}, "A9"),
    ask("en", {"A9": "Installation: 1,200.00"}, "A9"),
    ask("de", {"A9": "Versand 95 € je Server"}, "A9"),
    ask("de", {"A7": "Versand je Server", "E7": "95,00 € + 19 %"}, "A7 E7"),
    ask("en", {"A7": "Warranty 5 years, 8 %"}, "A7"),
    ask("en", {"A7": "Support, 1 year of 5", "E7": 900}, "A7"),
    ask("en", {"A7": "Switch 64 ports and cables, 2", "E7": 9_000}, "A7"),
    ask("en", {"A7": "Installation: 2 days", "E7": 1_100}, "A7"),
    ask("de", {"A7": "Schulung 3 Tage", "E7": 1_100}, "A7"),
    ask("en", {"A4": "Node 1 and node 2 PowerEdge R6625"}, "A4"),
    ask("en", {"A4": "PowerEdge R6625 rack system, 42U"}, "A4"),
    ask("de", {"A4": "Servergehäuse R6625"}, "A4"),
    ask("en", {"A4": "Memory for PowerEdge R6625"}, "A4"),
    ask("en", {"A4": "Support PowerEdge R6625"}, "A4"),
    ask("en", {"F3": "Customer price (EUR)", "F4": 13_000, "F5": 22_000, "F6": 90_000}, "F3 E3"),
    ask("en", {"F3": "Terms", "F4": "60 months at 280"}, "F4"),
    ask("en", {"F3": "Payment", "F4": "36 months"}, "F3 F4"),
    ask("nl", {"F3": "Aantal per doos", "F4": 2}, "F3"),
    ask("en", {"F3": "Nodes", "F4": 4, "F5": 4, "F6": 1, "E3": "Price (EUR)"}, "E3"),
    ask("de", {"F3": "Systeme", "F4": 4, "F5": 1, "F6": 1, "E3": "Preis (EUR)"}, "F3 E3"),
    ask("en", {"D3": "GPU"} | {"D4": "x", "D5": None, "D6": "x"}, "D4"),
    ask("en", {"C3": "Memory (GB)", "C4": "768 GB 2 nodes"}, "C4"),
    ask("en", {"B3": "CPU", "B4": 64, "B5": 128, "B6": 64}, "B3 B4"),
    ask("de", {"A1": "Angebot 2 Server PowerEdge: Preis gesamt"}, "A1"),
    ask("de", {"A1": "Angebot", "A2": "Anzahl Systeme", "B2": 4, "E3": "Preis (EUR)"}, "A2 B2"),
    ask("en", {"A8": "Total", "E8": 999_999}, "A8 E8"),
    ask("en", {}, "Prices_list!", title="Prices list"),
    # Layouts
    ask("de", {}, "C3 G3 G6", rows=[["Angebot"], BILL, [1, 2, "PowerEdge R6625", 64, "768 GB", 0, "14.960,00", "29.920,00"], ["", "", "davon 1 als Leihgabe", "", "", "", "", ""], [2, 1, "ThinkSystem SR645", 128, "1536 GB", 0, "24.880,00", "24.880,00"]], ),
    ask("de", {}, "B3 G3 H3 G2", rows=[["Angebot"], BILL, [1, 2, "PowerEdge R6625", 64, "768 GB", 0, "14.960,00", "31.000,00"]]),
    ask("en", {}, "A6", rows=[["Item", "PowerEdge R6625", "ThinkSystem SR645"], ["Cores", 64, 128], ["Memory (GB)", 768, 1536], ["GPUs", 0, 0], ["Unit price (EUR)", 14_960, 24_880], ["Less loyalty bonus", 500, 500]]),
    ask("en", {}, "A6", rows=[["Item", "PowerEdge R6625", "ThinkSystem SR645"], ["Cores", 64, 128], ["Memory (GB)", 768, 1536], ["GPUs", 0, 0], ["Unit price (EUR)", 14_960, 24_880], ["Sold in", "pairs", "pairs"]]),
    ask("fr", {}, "A2", rows=[["Devis"], ["Prix par baie complète"], HEADS["fr"], *ROWS]),
    ask("en", {}, "F2", rows=[["", "", "", "", "", ""], [*HEADS["en"], "Valid for two units"], *ROWS]),
    # Ordinary ones
    fine("de", {}, rows=[["Angebot Nr. 4711"], BILL, *([n, 2, name, cores, f"{mem} GB", gpus, price, price * 2] for n, (name, cores, mem, gpus, price) in enumerate(ROWS, 1)), ["", "", "Summe netto", "", "", "", "", 2 * sum(PRICES)], ["", "", "zzgl. 19 % MwSt.", "", "", "", "", round(0.38 * sum(PRICES), 2)], ["", "", "Gesamtbetrag brutto", "", "", "", "", round(2.38 * sum(PRICES), 2)]]),
    fine("en", {}, rows=[["Item", *(row[0] for row in ROWS)], ["Cores", *(row[1] for row in ROWS)], ["Memory (GB)", *(row[2] for row in ROWS)], ["GPUs", *(row[3] for row in ROWS)], ["Local disk", "2x 960GB NVMe", "2x 960GB NVMe", "2x 1.92TB NVMe"], ["Unit price (EUR)", *PRICES]]),
    fine("fr", {}, rows=[["Devis n° 12 du 3 mars 2026"], ["Client : Université de Lyon"], [], HEADS["fr"], *ROWS, [], ["Validité : 3 mois"], ["Conditions de paiement : 30 jours"]]),
    fine("es", {}, rows=[["Oferta para la Universidad de Granada"], ["Fecha: 12/11/2026"], HEADS["es"], *ROWS, ["Portes incluidos"]]),
    fine("it", {}, rows=[["Spett.le Università di Bologna"], ["Preventivo n. 26/118 del 12.11.2026"], HEADS["it"], *ROWS, ["Consegna: 45 giorni. Garanzia: 5 anni."]]),
    fine("nl", {}, rows=[["Offerte voor Universiteit Leiden"], ["Datum: 12-11-2026"], HEADS["nl"], *ROWS, ["Levering franco huis, 6 weken"]]),
    fine("en", {"F3": "Processor", "F4": "2 x AMD EPYC 9354 (32 cores, 3.25 GHz, 256 MB cache, 280 W)"}),
    fine("en", {"C3": "Memory", "C4": "768GB (12x 64GB DDR5-4800 RDIMM)", "C5": "1536GB (24x 64GB DDR5-4800 RDIMM)", "C6": "768GB (12x 64GB DDR5-4800 RDIMM)"}),
    fine("de", {"C3": "Arbeitsspeicher", "C4": "12 x 64 GB DDR5 ECC", "C5": "24 x 64 GB DDR5 ECC", "C6": "12 x 64 GB DDR5 ECC"}),
    fine("en", {"D6": "4 x NVIDIA H100 80GB SXM5"}),
    fine("de", {"D6": "4x NVIDIA L40S 48GB PCIe"}),
    fine("en", {"F3": "Lead time", "F4": "4-6 weeks ARO", "F5": "4-6 weeks ARO", "F6": "12 weeks ARO"}),
    fine("en", {"F3": "OS", "F4": "Rocky Linux 9", "F5": "Rocky Linux 9", "F6": "Rocky Linux 9"}),
    fine("de", {"F3": "Garantie", "F4": "60 Monate Vor-Ort NBD", "F5": "60 Monate Vor-Ort NBD", "F6": "60 Monate Vor-Ort NBD"}),
    fine("en", {"F3": "NIC", "F4": "Broadcom 57414 dual port 10/25GbE SFP28, OCP 3.0", "F5": "ConnectX-7 NDR 400Gb/s OSFP single port"}),
    fine("en", {"F3": "Chassis", "F4": "1U, 10x 2.5\" NVMe", "F5": "1U, 8x 2.5\"", "F6": "2U, 8x SFF"}),
    fine("en", {"F3": "PSU", "F4": "2 x 1100W Titanium hot-plug redundant (1+1)"}),
    fine("de", {"F3": "Management", "F4": "iDRAC9 Datacenter 16G", "G3": "TPM", "G4": "2.0"}),
    fine("en", {"F3": "URL", "F4": "https://www.dell.com/r6625", "G3": "Datasheet", "G4": "PE-R6625-2026.pdf"}),
    fine("de", {"A4": "Login-Knoten", "A5": "Rechenknoten (AMD)", "A6": "GPU-Rechenknoten"}),
    fine("en", {"A4": "Login node", "A5": "Fat node", "A6": "Visualization node"}),
    fine("en", {"A4": "Supermicro SYS-621C-TN12R", "A5": "Gigabyte R283-S92", "A6": "ASUS ESC4000A-E12"}),
    fine("fr", {"A4": "Serveur de calcul Dell PowerEdge R6625", "A5": "Serveur Lenovo SR645 V3", "A6": "Serveur GPU HPE DL385 Gen11"}),
    fine("de", {"A7": "BeeGFS-Speichersystem 500 TB netto nutzbar", "E7": 88_000}, order=88_000),
    fine("en", {"A7": "NDR InfiniBand cables, copper, 2 m", "E7": 5_600}, order=5_600),
    fine("en", {"A7": "On-site installation and acceptance test", "E7": 7_500}, order=7_500),
    fine("fr", {"A7": "Transport et livraison sur site", "E7": 900}, order=900),
    fine("es", {"A7": "Instalación y puesta en marcha", "E7": 2_500}, order=2_500),
    fine("de", {"A7": "Lieferung frei Verwendungsstelle", "E7": 450}, order=450),
    fine("en", {"A7": "Educational discount 3 %"}, percent=3),
    fine("fr", {"A7": "Remise 3 % sur serveurs"}, percent=3),
    fine("es", {"A7": "Descuento 3 %"}, percent=3),
    fine("en", {"A9": "All prices in EUR, excl. VAT, incl. delivery."}),
    fine("de", {"A9": "Es gelten unsere Allgemeinen Geschäftsbedingungen."}),
    fine("en", {"A9": "This offer is valid until 31 January 2027."}),
    fine("it", {"A9": "I prezzi si intendono IVA esclusa."}),
    fine("de", {"A9": "Alle Preise verstehen sich netto zuzüglich der gesetzlichen MwSt."}),
    fine("en", {}, sheets={"Contact": {"A1": "Contact", "A2": "Jane Miller", "A3": "jane.miller@example.com"}}),
    fine("de", {}, sheets={"Deckblatt": {"A1": "Angebot", "A2": "Muster GmbH", "A3": "Hauptstraße 12, 37073 Göttingen"}}, title="Preisblatt"),
]  # fmt: skip
"""Written last: known words in a sense that changes an amount, other layouts, and offers as they usually are."""

FOURTH = [
    # Known words, numbers and phrases in another sense
    ask("en", {"F3": "Server", "F4": "1 of 2", "F5": "1", "F6": "1"}, "F3 F4"),
    ask("en", {"A4": "PowerEdge R6625 / R7625"}, "A4"),
    ask("en", {"A4": "PowerEdge R6625 & switch"}, "A4"),
    ask("de", {"A4": "PowerEdge R6625 inkl. zweitem Knoten"}, "A4"),
    ask("en", {"A4": "GPU H100 for PowerEdge"}, "A4"),
    ask("en", {"A4": "CPU board R6625"}, "A4"),
    ask("en", {"A4": "DGX SuperPOD 4 systems"}, "A4"),
    ask("fr", {"A4": "Châssis 4 lames R6625"}, "A4"),
    ask("it", {"A4": "R6625 (quattro nodi in 2U)"}, "A4"),
    ask("en", {"B4": "2x 64 core total"}, "B4"),
    ask("en", {"C4": "768 GB RAM, 2 TB NVMe as RAM"}, "C4"),
    ask("en", {"C4": "768 GB (2x 384 GB nodes)"}, "C4"),
    ask("en", {"D6": "4x H100, 4x L40S"}, "D6"),
    ask("en", {"D6": "H100 4 of 8"}, "D6"),
    ask("en", {"E4": "EUR 14,960 per month"}, "E4"),
    ask("en", {"E4": "14,960 EUR / 2"}, "E4"),
    ask("en", {"E4": "USD 14,960"}, "E4"),
    ask("en", {"E4": "14'960.-- incl. VAT"}, "E4"),
    ask("en", {"F3": "Disk", "F4": "2x 960 GB NVMe 450 EUR"}, "F4"),
    ask("en", {"F3": "Warranty", "F4": "5 years NBD (+ 900)"}, "F4"),
    ask("en", {"F3": "Warranty", "F4": "3 years, year 4 and 5 1,800"}, "F4"),
    ask("de", {"F3": "Lieferung", "F4": "95 €"}, "F3 F4"),
    ask("de", {"F3": "Preis mit Garantie (EUR)", "F4": 15_900, "F5": 25_900, "F6": 99_900}, "F3 E3"),
    ask("en", {"F3": "Delivered price (EUR)", "F4": 15_900, "F5": 25_900, "F6": 99_900}, "F3 E3"),
    ask("es", {"F3": "Dto. cliente", "F4": "12 %"}, "F3 F4 E4"),
    ask("fr", {"F3": "Remise", "F4": 0.12}, "F3 F4"),
    ask("en", {"F3": "Node", "F4": "A+B", "F5": "C", "F6": "D"}, "F3 F4"),
    ask("en", {"F3": "Systems", "F4": "4x"}, "F3 F4"),
    # Lines
    ask("de", {"A7": "Rabatt 5 % auf Liste"}, "A7"),
    ask("en", {"A7": "Discount 5 % on node 2"}, "A7"),
    ask("en", {"A7": "Delivery for 2 nodes", "E7": 300}, "A7"),
    ask("en", {"A7": "Support year 1", "E7": 900}, "A7"),
    ask("en", {"A7": "Switch (10 nodes)", "E7": 900}, "A7"),
    ask("de", {"A7": "Kabel 2 m", "E7": 35}, "A7"),
    ask("en", {"A7": "Installation", "E7": "2 x 1,200"}, "A7 E7"),
    ask("en", {"A7": "Installation", "E7": "from 1,200"}, "A7 E7"),
    ask("en", {"A7": "Software licence, 5 years, 64 cores", "E7": 70}, "A7"),
    ask("en", {"A7": "Network", "E7": -900}, "A7 E7"),
    # Sentences
    ask("en", {"A9": "The amounts are for delivery of systems in sets."}, "A9"),
    ask("en", {"A9": "Note: node prices are those of the node with GPU."}, "A9"),
    ask("de", {"A9": "Hinweis: Preise in EUR bis 10 Server, danach auf Anfrage"}, "A9"),
    ask("de", {"A9": "Preise mit der gesetzlichen MwSt."}, "A9 E3 E4"),
    ask("en", {"A9": "VAT: 19 % in price"}, "A9 E3 E4"),
    ask("en", {"A9": "* = optional"}, "A9"),
    ask("fr", {"A9": "Prix en milliers d'euros"}, "A9 E3 E4"),
    ask("en", {"A9": "Memory is quoted in Gbit."}, "A9 C3"),
    ask("en", {"A9": "Cores are threads."}, "A9 B3"),
    ask("de", {"A9": "1 EUR = 1,08 USD"}, "A9"),
    ask("en", {"A2": "Exchange rate", "B2": 1.08}, "A2 B2"),
    ask("en", {}, "Page2!A1", sheets={"Page2": {"A1": "Node prices are for 36 months"}}),
    ask("en", {}, "Note!A1 Note!B1", sheets={"Note": {"A1": "Discount", "B1": 0.1}}),
    ask("en", {}, "E4", notes={"E4": "2 nodes"}),
    # Ordinary ones
    fine("en", {"A1": "QUOTATION", "A2": "To: Stockholm University, Dept. of Physics"}),
    fine("en", {"A9": "Prices are in EUR and exclude VAT. Quotation valid for 60 days from date of issue."}),
    fine("en", {"A9": "Delivery 6-8 weeks after receipt of order. Payment 30 days net."}),
    fine("de", {"A9": "Dieses Angebot ist freibleibend und gültig bis 31.01.2027."}),
    fine("de", {"A9": "Wir freuen uns auf Ihren Auftrag."}),
    fine("fr", {"A9": "Nous vous remercions de votre confiance."}),
    fine("es", {"A9": "Plazo de entrega: 6 semanas. Forma de pago: transferencia a 30 días."}),
    fine("it", {"A9": "Resa: franco destino. Pagamento: bonifico bancario 30 giorni."}),
    fine("nl", {"A9": "Op deze offerte zijn onze algemene voorwaarden van toepassing."}),
    fine("en", {"F3": "Drives", "F4": "2 x 1.92 TB SSD SATA 6G read intensive", "G3": "Network", "G4": "2x 25GbE SFP28 + 1x NDR InfiniBand"}),
    fine("de", {"F3": "Laufwerke", "F4": "2x 480 GB M.2 NVMe Boot (RAID1), 1x 7,68 TB NVMe", "G3": "Netzwerk", "G4": "2x 10GBase-T, 1x HDR100"}),
    fine("en", {"F3": "Warranty", "F4": "5Y ProSupport NBD", "F5": "5Y Premier NBD", "F6": "5Y Tech Care Basic"}),
    fine("fr", {"F3": "Garantie", "F4": "5 ans J+1 sur site"}),
    fine("en", {"F3": "Processor", "F4": "2x Intel Xeon Platinum 8562Y+ 32C 2.8GHz 300W"}),
    fine("en", {"F3": "Form factor", "F4": "1U", "F5": "1U", "F6": "2U", "G3": "Weight", "G4": "22 kg"}),
    fine("es", {"A4": "Servidor de cálculo Dell PowerEdge R6625", "A5": "Servidor Lenovo SR645 V3", "A6": "Servidor GPU HPE DL385"}),
    fine("it", {"A4": "Server di calcolo Dell PowerEdge R6625", "A5": "Server Lenovo SR645 V3", "A6": "Server GPU HPE DL385"}),
    fine("nl", {"A4": "Dell PowerEdge R6625 rekenserver", "A5": "Lenovo SR645 V3 geheugenserver", "A6": "HPE DL385 GPU-server"}),
    fine("en", {"A7": "Lustre storage appliance 1 PB usable", "E7": 210_000}, order=210_000),
    fine("en", {"A7": "QM9700 NDR switch, 64 ports", "E7": 32_000}, order=32_000),
    fine("de", {"A7": "19\"-Rack 42 HE mit 2 PDUs", "E7": 3_300}, order=3_300),
    fine("fr", {"A7": "Câbles InfiniBand NDR 3 m", "E7": 3_300}, order=3_300),
    fine("nl", {"A7": "Levering en installatie op locatie", "E7": 3_300}, order=3_300),
    fine("es", {"A7": "Transporte e instalación", "E7": 3_300}, order=3_300),
    fine("en", {"A7": "Delivery per node", "E7": 100}, node=100),
]  # fmt: skip
"""Written after the third list was mended."""


def write(case: Case, path: Path) -> None:
    """Write an offer as a workbook."""
    from openpyxl import Workbook
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont
    from openpyxl.comments import Comment
    from openpyxl.styles import Font

    book = Workbook()
    sheet = book.active
    sheet.title = case.title
    for row in case.rows:
        sheet.append(row)
    if "A1" not in case.cells and not case.rows:
        sheet["A1"] = {"de": "Angebot", "fr": "Devis", "es": "Oferta", "it": "Offerta", "nl": "Offerte"}.get(
            case.lang, "Quotation"
        )
    for r, row in enumerate([] if case.rows else [HEADS[case.lang], *ROWS], 3):
        for c, value in enumerate(row, 1):
            sheet.cell(r, c).value = value
    for where, value in case.cells.items():
        sheet[where] = value
    for where, text in case.notes.items():
        sheet[where].comment = Comment(text, "vendor")
    for where, text in case.formats.items():
        sheet[where].number_format = text
    if case.hidden:
        sheet.column_dimensions[case.hidden].hidden = True
    if case.merged:
        sheet.merge_cells(case.merged)
    if case.struck:
        sheet[case.struck].font = Font(strike=True)
    if case.page:
        sheet.oddFooter.center.text = case.page
    if case.part:
        old, new = str(sheet[case.part].value).split(" / ")
        sheet[case.part] = CellRichText(TextBlock(InlineFont(strike=True), old), " " + new)
    for title, cells in case.sheets.items():
        other = book.create_sheet(title)
        for where, value in cells.items():
            other[where] = value
    if case.kind == "csv":
        rows = [["" if cell is None else str(cell) for cell in row] for row in sheet.iter_rows(values_only=True)]
        path.write_text("".join(";".join(row) + "\n" for row in rows), encoding="utf-8")
        return
    book.save(path)


def is_right(case: Case, found: Any) -> bool:
    """Tell whether what was read is the truth."""
    if case.prices is None:
        return False
    rows = found.quotes
    want = [case.figures.get(n, tuple(ROWS[n][1:4])) for n in range(len(case.prices))]
    if [tuple(one) for one in rows[["cpus", "mem_gb", "gpus"]].to_numpy().tolist()] != want:
        return False
    if [round(one, 2) for one in rows["price_usd"]] != [round(one * RATE["EUR"], 2) for one in case.prices]:
        return False
    sums = {"order": 0.0, "node": 0.0}
    for line in found.lines:
        sums[line.per] += float(line.usd) * line.quantity
    percent = sum(float(line.percent or 0) for line in found.lines)
    return (sums["order"], sums["node"], percent) == (case.order * RATE["EUR"], case.node * RATE["EUR"], case.percent)


def names_it(case: Case, finding: Any) -> bool:
    """Tell whether a finding quotes a cell that decides."""
    for key in case.key.split():
        sheet, mark, cell = key.replace("_", " ").rpartition("!")
        if f"({key})" in finding.allowed or (
            finding.sheet == ("" if case.kind == "csv" else sheet if mark else case.title) and cell == finding.cell
        ):
            return True
    return False


def judge(case: Case, path: Path) -> tuple[str, str]:
    """Return how an offer is read, and what is said."""
    write(case, path)
    try:
        found = read_quote_file(path, OfferReading(rates={"EUR": RATE["EUR"], "GBP": RATE["GBP"]}))
    except TableError as error:
        return "refused", str(error)
    said = [str(one) for one in found.findings if names_it(case, one) and one.severity == "error"]
    if said:
        return "asked", said[0]
    if found.errors:
        return ("refused" if case.prices is None else "asked without need"), str(found.errors[0])
    if is_right(case, found):
        return "read", ""
    said = [str(one) for one in found.findings if names_it(case, one)]
    return ("said", said[0]) if said else ("wrong", str(found.quotes.iloc[:, :6].to_dict("records"))[:200])


def nonsense(path: Path, word: str = "zwirbel") -> tuple[int, list[str]]:
    """Put a word that is in no language into each cell of an office's workbook in turn; return which are not named.

    In a text it stands at its end, of a number in its format.
    """
    from openpyxl import load_workbook

    book = load_workbook(path)
    cells = [
        (sheet.title, cell.coordinate)
        for sheet in book.worksheets
        for row in sheet.iter_rows()
        for cell in row
        if cell.value is not None
        and not str(cell.value).startswith("=")
        and not sheet.column_dimensions[cell.column_letter].hidden
        and not sheet.row_dimensions[cell.row].hidden
    ]
    silent = []
    for title, where in cells:
        changed = load_workbook(path)
        cell = changed[title][where]
        if isinstance(cell.value, str):
            cell.value += f" {word}"
        else:
            cell.number_format = f'0.00" {word}"'
        changed.save(path.with_name("nonsense.xlsx"))
        try:
            found = read_quote_file(path.with_name("nonsense.xlsx"), OfferReading(rates={"EUR": 2, "CHF": 2, "GBP": 2}))
        except TableError:
            continue
        named = [
            one for one in found.findings if (one.sheet, one.cell) == (title, where) or word in one.given + one.allowed
        ]
        if not any(one.severity != "warning" or word in one.given for one in named):
            silent.append(f"{path.name} {title}!{where} {book[title][where].value!r}")
    return len(cells), silent


def put_nonsense(seeds: range, folder: Path) -> None:
    """Print of how many cells of drawn workbooks a word that is in no language is not named."""
    counts = [0, 0]
    for seed in seeds:
        case = draw(seed, folder)
        if case.path.suffix == ".xlsx":
            n, silent = nonsense(case.path)
            counts = [counts[0] + n, counts[1] + len(silent)]
            print(*silent, sep="\n", end="\n" if silent else "")
    print(f"cells {counts[0]}, not named {counts[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", choices=list(KINDS), default="first")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--nonsense", type=int, metavar="N", help="of the workbooks among the office's first N files")
    given = parser.parse_args()
    if given.nonsense:
        with tempfile.TemporaryDirectory() as temporary:
            put_nonsense(range(1, given.nonsense + 1), Path(temporary))
        return
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for n, case in enumerate(KINDS[given.kinds]):
            how, why = judge(case, Path(folder) / f"{given.kinds}-{n}.{case.kind}")
            counts[how] += 1
            if given.show or how == "wrong":
                print(
                    f"{n:3} {how:18} {case.lang} {case.cells or case.notes or case.formats or case.title} | {why[:170]}"
                )
    for how in ("read", "asked", "said", "asked without need", "refused", "wrong"):
        print(f"{how:18} {counts[how]:4}")


KINDS = {"first": FIRST, "second": SECOND, "third": THIRD, "fourth": FOURTH}

if __name__ == "__main__":
    main()
