"""How does anything become one page? Drawings that every report shares."""
