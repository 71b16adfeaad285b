-- Sends each request of a file once: its lines are "signature id body".
local requests, at, most = {}, 0, 0

function init(args)
  for line in io.lines(args[1]) do
    local signature, id, body = line:match("^(%S+) (%S+) (.*)$")
    requests[#requests + 1] = wrk.format("POST", nil, {
      ["Content-Type"] = "application/json", ["User-Agent"] = "GitHub-Hookshot/044aadd", ["Accept"] = "*/*",
      ["X-GitHub-Event"] = "issues", ["X-GitHub-Delivery"] = id, ["X-Hub-Signature-256"] = signature,
    }, body)
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
