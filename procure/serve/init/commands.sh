#!/bin/sh
# What `procure serve` asks of Slurm; nothing of it changes anything. Where the service's machine has no Slurm, let cron run
# this script each minute where there is one, and name the folder that it writes into as `dumps` in config.toml.
cd "${1:?the folder to write into}" || exit
export SLURM_BITSTR_LEN=0 SLURM_TIME_FORMAT=%s
@COMMANDS@
