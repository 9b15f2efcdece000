/**
 * Child process of the relay's benchmark: routes of bare Express that only drain their body, or send a buffer that is
 * ready, the least that anybody could do.
 */
import express from 'express'

const MEBIBYTE = 1_048_576
const app = express()
const posted = { url: `relay://bafkrei${'a'.repeat(52)}`, cid: `bafkrei${'a'.repeat(52)}` }
const answer = Buffer.from(`{"file":"${'a'.repeat(MEBIBYTE)}"}`)

app.post('/file', (req, res) => {
  req.on('end', () => res.json(posted)).resume()
})
app.get('/file/ready', (_req, res) => {
  res.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': answer.length })
  res.end(answer)
})

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as { port: number }).port })
})
server.keepAliveTimeout = 600_000
process.on('SIGTERM', () => process.exit(0))
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send?.({ cpuMicroseconds: user + system })
})
