-- Refuse a submission whose comment has invalid hints for offpeak. A job that may wait, by delay= or deadline=, gets a
-- begin time in two minutes if it has none: Slurm would start it at once where nodes are free, before offpeak's first
-- decision about it. All other submissions pass unchanged.
--
--   offpeak:delay=12h                      the job may start up to 12 hours later than it could (s, min, h, d)
--   offpeak:deadline=2026-11-22T08:00      the job may wait if it ends before this time, at its time limit
--   offpeak:checkpoint=USR1@10min          the job may be requeued: it writes a checkpoint within this time of the signal
--   offpeak:cap                            the power of its nodes may be capped
--   offpeak:now                            do not move, delay, requeue or cap the job
--   offpeak:key=...                        key by which a broker finds the job
--
-- In slurm.conf: JobSubmitPlugins=lua; put this file next to slurm.conf. A site with its own job_submit.lua copies
-- `offpeak_trouble` and `offpeak_may_wait` into it and calls them from its slurm_job_submit, as below. If this code
-- fails, the job passes.

local UNIT_S = { s = 1, min = 60, h = 3600, d = 86400 }
local SIGNALS = { USR1 = true, USR2 = true, TERM = true, INT = true, HUP = true }
local LONGEST_S = 100 * 36525 * 864
local FIRST_YEAR, LAST_YEAR = 1970, 2999
local HOLD_S = 120
local DAYS = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }

local function delay_trouble(text)
  local number, unit = string.match(text, "^([%d%.eE+-]-)(%a+)$")
  local value = number and tonumber(number)
  if not value or not UNIT_S[unit] then
    return "write it like offpeak:delay=12h, with s, min, h or d"
  end
  local seconds = value * UNIT_S[unit]
  if seconds < 0 or seconds ~= math.floor(seconds) then
    return "a delay is zero or more, in whole seconds"
  elseif seconds > LONGEST_S then
    return string.format("'%s' is more than 100 years; check the number and its unit", text)
  end
end

local function checkpoint_trouble(text)
  local signal, time = string.match(text, "^(%u[%u%d]+)@(.*)$")
  local number, unit = string.match(time or text, "^(%d+)(%a+)$")
  local seconds = number and tonumber(number) * (UNIT_S[unit == "m" and "min" or unit] or 0)
  if (signal and not SIGNALS[signal]) or not seconds or seconds <= 0 or seconds >= 86400 then
    return "write it like offpeak:checkpoint=10min or checkpoint=USR2@10min, below a day; USR1, USR2, TERM, INT or HUP"
  end
end

local function days_of(year, month)
  local leap = (year % 4 == 0 and year % 100 ~= 0) or year % 400 == 0
  return (month == 2 and leap) and 29 or DAYS[month] or 0
end

-- Days since 1970-01-01 in the Gregorian calendar; years begin in March, so that a leap day ends one.
local function day_number(year, month, day)
  if month <= 2 then
    year = year - 1
  end
  local of_year = math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1
  return 365 * year + math.floor(year / 4) - math.floor(year / 100) + math.floor(year / 400) + of_year - 719468
end

-- Return the Unix second, nil for an invalid time; a time without an offset is in this machine's time zone.
local function instant(text)
  local year, month, day, hour, minute, rest = string.match(text, "^(%d%d%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d)(.*)$")
  if not year then
    return nil
  end
  local second, zone = string.match(rest, "^:(%d%d)(.*)$")
  year, month, day, hour, minute = tonumber(year), tonumber(month), tonumber(day), tonumber(hour), tonumber(minute)
  second, zone = tonumber(second or "0"), zone or rest
  if day < 1 or day > days_of(year, month) or hour > 23 or minute > 59 or second > 59 then
    return nil
  end
  if zone == "" then
    return os.time({ year = year, month = month, day = day, hour = hour, min = minute, sec = second })
  end
  local sign, zone_h, zone_min = string.match(zone, "^([+-])(%d%d):(%d%d)$")
  if zone ~= "Z" and (not sign or tonumber(zone_h) > 23 or tonumber(zone_min) > 59) then
    return nil
  end
  local ahead_s = sign and (tonumber(zone_h) * 3600 + tonumber(zone_min) * 60) or 0
  local utc_s = day_number(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
  return sign == "-" and utc_s + ahead_s or utc_s - ahead_s
end

local function deadline_trouble(text, earliest_s, limit_s)
  local deadline_s, year = instant(text), tonumber(string.sub(text, 1, 4))
  if not deadline_s then
    return "write it like offpeak:deadline=2026-11-22T08:00 or 2026-11-22T08:00+01:00"
  elseif year < FIRST_YEAR or year > LAST_YEAR then
    local form = "'%s' is not between %d and %d; write it like 2026-11-22T08:00 or 2026-11-22T08:00+01:00"
    return string.format(form, text, FIRST_YEAR, LAST_YEAR)
  elseif deadline_s <= os.time() then
    return "that time has passed"
  elseif deadline_s < earliest_s + limit_s then
    return string.format("with its time limit of %d min the job cannot end by then", limit_s / 60)
  end
end

local function hint_problem(hint, earliest_s, limit_s)
  local name, value = string.match(hint, "^(%a+)=(.*)$")
  if name == "delay" then
    return delay_trouble(value)
  elseif name == "deadline" then
    return deadline_trouble(value, earliest_s, limit_s)
  elseif name == "checkpoint" then
    return checkpoint_trouble(value)
  elseif hint ~= "now" and hint ~= "cap" and name ~= "key" then
    return "known are delay=12h, deadline=2026-11-22T08:00, checkpoint=10min, cap and now"
  end
end

-- Return the hints of the comment. After the first hint and a comma, further hints may omit "offpeak:".
local function hints_of(comment)
  local hints = {}
  for chunk in string.gmatch(comment, "%S+") do
    local begun = false
    for piece in string.gmatch(chunk, "[^,;]+") do
      local hint = string.match(piece, "^offpeak:(.*)$")
      begun = begun or hint ~= nil
      local name = string.match(piece, "^(%a+)=")
      if not hint and begun and (piece == "now" or piece == "cap" or name == "delay" or name == "deadline" or name == "checkpoint") then
        hint = piece
      end
      if hint and hint ~= "" then
        table.insert(hints, hint)
      end
    end
  end
  return hints
end

-- Return the problem of the comment, nil if there is none. `earliest_s` is the earliest start [Unix s], `limit_s`
-- the time limit, 0 for none.
function offpeak_trouble(comment, earliest_s, limit_s)
  for _, hint in ipairs(hints_of(comment)) do
    local trouble = hint_problem(hint, earliest_s, limit_s)
    if trouble then
      return string.format("offpeak:%s in the comment: %s", hint, trouble)
    end
  end
end

-- Return whether the owner allows a delay.
function offpeak_may_wait(comment)
  local may_wait = false
  for _, hint in ipairs(hints_of(comment)) do
    if hint == "now" then
      return false
    end
    may_wait = may_wait or string.match(hint, "^delay=") ~= nil or string.match(hint, "^deadline=") ~= nil
  end
  return may_wait
end

local function trouble_of(job)
  if type(job.comment) ~= "string" then
    return nil
  end
  local begin_s, limit_min = job.begin_time or 0, job.time_limit
  local unlimited = not limit_min or limit_min == slurm.NO_VAL or limit_min == slurm.INFINITE
  return offpeak_trouble(job.comment, math.max(os.time(), begin_s), unlimited and 0 or limit_min * 60)
end

local function hold(job)
  local has_begin = job.begin_time and job.begin_time > 0 and job.begin_time ~= slurm.NO_VAL64
  if type(job.comment) == "string" and not has_begin and offpeak_may_wait(job.comment) then
    job.begin_time = os.time() + HOLD_S
  end
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  local fine, trouble = pcall(trouble_of, job_desc)
  if not fine then
    slurm.log_error("offpeak: job_submit.lua: %s", tostring(trouble))
  elseif trouble then
    slurm.log_user("%s", trouble)
    return slurm.ERROR
  end
  local held, why_not = pcall(hold, job_desc)
  if not held then
    slurm.log_error("offpeak: job_submit.lua: %s", tostring(why_not))
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
