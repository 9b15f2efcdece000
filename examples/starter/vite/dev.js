// Starts Vite's development server on the port of SERVICE_URL, which passes /api on to the API ten ports above.
import './env.js'
import { spawn } from 'node:child_process'
import { createServer } from 'vite'

const vite = await createServer()
const PORT = String(vite.config.server.port + 10)
const server = ['--watch']
server.push('server.js') // not --typescript
server.push('--import', 'tsx', 'server.ts') // --typescript
const api = spawn(process.execPath, server, { env: { ...process.env, PORT, BEHIND_VITE: 'true' }, stdio: 'inherit' })
process.once('exit', () => api.kill())
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit())
await vite.listen().catch((error) => {
  console.error(`${error.message}. If another program uses the port, change the number of SERVICE_URL in .env`)
  process.exit(1)
})
vite.printUrls()
