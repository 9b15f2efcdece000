// Starts the API on port 3010, and Vite's development server on port 3000, which passes /api on to it.
import { spawn } from 'node:child_process'
import { createServer } from 'vite'

const server = ['--watch', '--env-file=.env']
server.push('server.js') // not --typescript
server.push('--import', 'tsx', 'server.ts') // --typescript
const api = spawn(process.execPath, server, { env: { ...process.env, PORT: '3010' }, stdio: 'inherit' })
process.once('exit', () => api.kill())
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit())
const vite = await createServer()
await vite.listen()
vite.printUrls()
