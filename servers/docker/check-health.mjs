// The health check of the image: slim images have no curl. The exit code is 0 if every server that runs here is ready.
// `all` does not use PORT, which many platforms set.
const { PORT, AUTH_PORT, RELAY_PORT, VAULT_PORT } = process.env
const ports = [PORT, AUTH_PORT || 3000, RELAY_PORT || 3001, VAULT_PORT || 3002].filter(Boolean)

/** Undefined where nothing listens. */
async function isReady(port) {
  try {
    const { ok } = await fetch(`http://127.0.0.1:${port}/ready`, { signal: AbortSignal.timeout(4_000) })
    return ok
  } catch (error) {
    return error.cause?.code === 'ECONNREFUSED' ? undefined : false
  }
}

const states = await Promise.all(ports.map(isReady))
process.exit(states.includes(true) && !states.includes(false) ? 0 : 1)
