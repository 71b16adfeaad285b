-- Sends each request of a file once: its lines are the headers, `Name: value`, and then the body, parted by tabs.
local requests, at, most = {}, 0, 0

function init(args)
  for line in io.lines(args[1]) do
    local headers, body = {}, ""
    for part in line:gmatch("[^\t]+") do
      local name, value = body:match("^([%w-]+): (.*)$")
      if name then headers[name] = value end
      body = part
    end
    requests[#requests + 1] = wrk.format("POST", nil, headers, body)
  end
  most = #requests
end

function request()
  at = at + 1
  return requests[math.min(at, most)]
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    "FIGURES %d %d %f %f %d %d\n", summary.requests, summary.duration, latency:percentile(50) / 1000,
    latency:percentile(99) / 1000, errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
