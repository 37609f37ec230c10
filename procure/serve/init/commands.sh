# What `procure serve` runs on this cluster, and how often; nothing of it changes anything.
@COMMANDS@
