"""Names of earlier versions that a study or a script may hold, and what to do instead."""

from __future__ import annotations

REMOVED = {
    "learned:ahead": "looking ahead made no wait shorter; leave it out",
    "learned:every": "looking ahead made no wait shorter; leave it out",
    "procure learn train --from": "write --days FIRST..",
    "procure learn train --to": "write --days ..LAST",
    "procure learn train --inside": "the order inside EASY is what is trained; leave it out",
    "procure learn train --hidden": "a network added nothing; leave it out",
    "procure learn train --max-jobs": "weeks are taken however many jobs they have",
    "procure learn evaluate --from": "write --days FIRST..",
    "procure learn evaluate --to": "write --days ..LAST",
    "procure learn evaluate --continuous": "weeks without a break are what is judged; days are --daily",
    "procure learn evaluate --ahead": "looking ahead made no wait shorter; leave it out",
    "procure learn evaluate --every": "looking ahead made no wait shorter; leave it out",
    "procure learn evaluate --keep": "keep what --format json prints",
    "procure learn evaluate --report": "--format json or csv has all figures",
    "procure topology penalty --report": "--format json or csv has all figures; links: procure topology check",
    "procure window compare --report": "--format json or csv has all figures",
    "procure window snapshot": "on a real log it saved 0.5 % of the hops; solve one window with procure window solve",
    "procure coschedule run --limit-a": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --learner": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --interval": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --step": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --driver": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --weight": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --progress": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --progress-file": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --seed": "the guest has idle priority, or --share a quota; leave it out",
    "procure coschedule run --log": "--format json says what became of both",
    "procure coschedule run --plot": "--format json says what became of both",
    "procure coschedule measure --driver": "it measures idle priority, and quotas where systemd runs",
    "procure coschedule measure --weight": "it measures idle priority, and quotas where systemd runs",
    "procure coschedule measure --progress": "let the commands end often: runs per second are counted",
    "procure coschedule clean": "the kernel ends what a killed run had started",
}
"""By ``POLICY:PARAMETER`` or by the command line up to an option or a command."""
