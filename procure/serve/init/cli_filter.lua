-- A line of advice as a job is submitted: when it may start. In slurm.conf: CliFilterPlugins=cli_filter/lua; this file
-- stands beside slurm.conf. It never delays a submission by more than 0.2 s, and never fails one: whatever goes wrong,
-- it says nothing. PROCURE_QUIET=1 in a user's environment turns it off.
local SOCKET = "@FOLDER@/run/procure.sock"
local CURL = "curl -q --silent --fail --max-time 0.2 --max-filesize 2000 --noproxy '*'"

-- Perl starts in a third of the time that curl takes, without a module: socket, its options and addresses by number.
local PERL = "/usr/bin/perl"
local ASK = [[
  socket(S, 1, 1, 0) and fcntl(S, 4, 2048) and connect(S, pack("SZ*", 1, $ARGV[0])) or exit;
  syswrite(S, "GET $ARGV[1] HTTP/1.0\r\nhost: procure\r\n\r\n") or exit;
  vec($bits, fileno(S), 1) = 1;
  for ($left = 0.2; $left > 0 and length($said) < 4000;) {
    ($n, $left) = select($ready = $bits, undef, undef, $left);
    last unless $n > 0 and sysread(S, $said, 4000 - length($said), length($said));
  }
  print $1 if $said =~ m{^HTTP/1\.[01] 200 .*?\r\n\r\n(.*)}s;
]]

-- The shell's command that asks the service.
local function command(asked)
  local path, there = "/v1/advice?" .. asked, io.open(PERL, "r")
  local words = CURL .. " --unix-socket '" .. SOCKET .. "' 'http://procure" .. path .. "'"
  if there then
    there:close()
    words = PERL .. " -e '" .. ASK .. "' '" .. SOCKET .. "' '" .. path .. "'"
  end
  return "exec 2>/dev/null; unset PERL5OPT; exec " .. words
end

-- A value that may stand in a command: nothing that a shell or an address reads as more than text.
local function plain(value)
  value = tostring(value or "")
  if #value <= 100 and value:match("^[%w:._-]+$") then return value end
  return nil
end

local function number(value)
  value = tonumber(value)
  if value and value >= 1 and value < 1e9 then return math.floor(value) end
  return nil
end

-- Memory per node as sbatch was given it: 64G, 500M, 4096 (MB).
local function in_mb(value)
  local count, unit = tostring(value or ""):match("^(%d+)([KkMmGgTt]?)[Bb]?$")
  if not count then return nil end
  local factor = ({ k = 1 / 1024, m = 1, g = 1024, t = 1048576 })[unit:lower()] or 1
  return math.ceil(tonumber(count) * factor)
end

-- How many GPUs an option asks for: 2, a100:2 or, among generic resources, gres:gpu:a100:2,gres:tmp:1; false where that
-- is not understood.
local function gpus_of(value, generic)
  local total = 0
  for item in tostring(value or ""):gmatch("[^,]+") do
    local own = item:gsub("^gres[:/]", "")
    if generic then own = own:match("^gpu$") and "1" or own:match("^gpu[:=](.+)$") or "0" end
    local count = own:match("^%d+$") or own:match("^%a[%w_-]*[:=](%d+)$") or (generic and own:match("^%a[%w_-]*$") and 1)
    if not tonumber(count) then return false end
    total = total + tonumber(count)
  end
  return total
end

-- The options of sbatch by their long names. One that was not given is nil, 0, a negative number or, for the limit,
-- a length of thousands of years; one task beside tasks per node is no number that was given. Nothing is asked about a
-- job with an option that is not understood here: the answer would be about another job.
local function question(options)
  local time = plain(options["time"])
  if not time or (tonumber(time:match("^(%d+)%-")) or 0) > 3650 then return nil end
  local tasks, each = number(options["ntasks"]) or 1, number(options["cpus-per-task"]) or 1
  local nodes = number(tostring(options["nodes"] or ""):match("^%d+")) or 1
  local per_node = number(options["ntasks-per-node"])
  if tasks == 1 and per_node then tasks = nodes * per_node end
  local cpus = math.max(tasks * each, nodes)
  local parts = { "cpus=" .. cpus, "time=" .. time, "nodes=" .. nodes }
  if number(options["cpus-per-gpu"]) or number(options["ntasks-per-gpu"]) then return nil end
  if options["mem-per-gpu"] or options["gpus-per-socket"] then return nil end
  local partition, memory = plain(options["partition"]), in_mb(options["mem"])
  if options["partition"] and not partition then return nil end
  local each_cpu = in_mb(options["mem-per-cpu"])
  if each_cpu then memory = each_cpu * math.ceil(cpus / nodes) end
  local all, generic = gpus_of(options["gpus"]), gpus_of(options["gres"], true)
  local each_node, each_task = gpus_of(options["gpus-per-node"]), gpus_of(options["gpus-per-task"])
  if not (all and generic and each_node and each_task) then return nil end
  local gpus = number(math.max(all, nodes * math.max(generic, each_node), tasks * each_task))
  if partition then parts[#parts + 1] = "partition=" .. partition end
  if memory then parts[#parts + 1] = "mem=" .. memory .. "M" end
  if gpus then parts[#parts + 1] = "gpus=" .. gpus end
  return table.concat(parts, "&")
end

local function advise(options)
  if os.getenv("PROCURE_QUIET") or not options then return end
  local asked = question(options)
  if not asked then return end
  local pipe = io.popen(command(asked), "r")
  if not pipe then return end
  local said = pipe:read("*l")
  pipe:close()
  if said and #said < 600 and said:match("^procure: ") and not said:match("[%c\127]") then
    slurm.log_info("%s", said)
  end
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  pcall(function()
    if options["type"] == "sbatch" then advise(options) end
  end)
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
