//! Lua scripts, which the server runs atomically. They require Redis 5 or later, or Valkey.

/// Keys: the lease and the result of a check. Arguments: requester, duration in milliseconds, token
/// and round of the last result that the requester knows. Returns: 1 if the requester holds the
/// lease, the token, the remaining milliseconds, the last result (nil if there is none or the
/// requester knows it), and its age in milliseconds.
///
/// A token is a time in microseconds, so that tokens increase even if the server loses its data. If
/// the clock is set back, the token is still higher than that of the stored result. The lease of an
/// instance that has ended must not last until the clock reaches its former value, and the age of
/// the result is unknown until then.
pub(super) const LEASE: &str = r"
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local token, holder = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (.*)$')
local last = redis.call('HMGET', KEYS[2], 'token', 'round', 'at', 'value')
local own = 0
if not token then
  token = string.format('%.0f', math.max(now, (tonumber(last[1]) or 0) + 1))
  holder = ARGV[1]
  redis.call('SET', KEYS[1], token .. ' ' .. holder, 'PX', ARGV[2])
  own = 1
elseif holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  own = 1
end
local left, most = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
if left < 0 or left > most then
  redis.call('PEXPIRE', KEYS[1], most)
  left = most
end
local value, age = false, now - (tonumber(last[3]) or 0)
if last[4] and age >= 0 and not (last[1] == ARGV[3] and last[2] == ARGV[4]) then
  value = last[4]
end
return {own, token, left, value, math.max(0, math.floor(age / 1000))}
";

/// Keys: the lease and the result of a check. Arguments: holder, token, round, value, milliseconds
/// for which the value is stored, channel. Returns 1, or 0 if the result was refused.
pub(super) const PUBLISH: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[2] .. ' ' .. ARGV[1] then return 0 end
local last = redis.call('HMGET', KEYS[2], 'token', 'round')
local token, round = tonumber(last[1]) or 0, tonumber(last[2]) or 0
local own = tonumber(ARGV[2])
if token > own or (token == own and round >= tonumber(ARGV[3])) then return 0 end
local t = redis.call('TIME')
local at = string.format('%.0f', t[1] * 1000000 + t[2])
redis.call('HSET', KEYS[2], 'token', ARGV[2], 'round', ARGV[3], 'at', at, 'value', ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('PUBLISH', ARGV[6], ARGV[4])
return 1
";

/// Key: the lease of a check. Arguments: holder, token, channel, message. Returns 1, or 0 if the
/// message was refused.
pub(super) const NOTIFY: &str = r"
if redis.call('GET', KEYS[1]) ~= ARGV[2] .. ' ' .. ARGV[1] then return 0 end
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
";

/// Keys: values by instance, expiries by instance. Arguments: instance, value, duration in
/// milliseconds. Also removes up to 100 expired instances, and up to 100 that were announced before
/// the clock was set back. All instances use the same duration.
pub(super) const ANNOUNCE: &str = r"
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local last = string.format('%.0f', now + ARGV[3])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], last, ARGV[1])
for first, final in pairs({['-inf'] = now, ['(' .. last] = '+inf'}) do
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], first, final, 'LIMIT', 0, 100)) do
    redis.call('HDEL', KEYS[1], name)
    redis.call('ZREM', KEYS[2], name)
  end
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[3])
end
return 1
";

/// Keys: values by instance, expiries by instance. Argument: duration of announcements in
/// milliseconds; one that lasts longer was stored before the clock was set back. Returns names and
/// values alternately.
pub(super) const ANNOUNCED: &str = r"
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], now, now + ARGV[1])) do
  local value = redis.call('HGET', KEYS[1], name)
  if value then
    all[#all + 1] = name
    all[#all + 1] = value
  end
end
return all
";
