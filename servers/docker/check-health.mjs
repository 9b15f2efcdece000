// The health check of the image: slim images have no curl. Exit code 0 when the server can be used.
const { PORT, AUTH_PORT } = process.env
try {
  const { ok } = await fetch(`http://127.0.0.1:${PORT ?? AUTH_PORT ?? 3000}/ready`, {
    signal: AbortSignal.timeout(4_000)
  })
  process.exit(ok ? 0 : 1)
} catch {
  process.exit(1)
}
