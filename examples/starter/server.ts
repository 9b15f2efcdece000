import { createApp } from './app.js'
import { store } from './store.js'

const app = createApp(store)
const url = new URL(process.env.SERVICE_URL ?? '')
// A host may set PORT. In development, the number in SERVICE_URL is the only one.
const server = app.listen(Number(process.env.PORT ?? (url.port || 3000)))
server.on('listening', () => {
  const bound = server.address()
  const port = typeof bound === 'object' && bound !== null ? bound.port : 0
  console.log(`Listening on port ${port}. Open ${url.origin}`)
  if (process.env.BEHIND_VITE) return // --vite
  if (!['localhost', '127.0.0.1'].includes(url.hostname) || Number(url.port) === port) return
  const address = `http://${url.hostname}:${port}`
  console.warn(`Logins at ${address} are refused: set SERVICE_URL=${address} in .env`)
})
server.on('error', (error) => {
  console.error(`${error.message}. If another program uses the port, change the number of SERVICE_URL in .env`)
  process.exitCode = 1
  void store.close()
})
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => server.close(() => void store.close()))
