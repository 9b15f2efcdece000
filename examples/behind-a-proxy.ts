/**
 * An app behind a reverse proxy. It rate-limits by the client address that the proxy forwards. Users sign for its
 * public URL.
 */
import { randomBytes } from 'node:crypto'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'

const privateKey = process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')
const app = express()
// The app runs behind one trusted proxy. Without this line, all users would share the rate limit of one address.
app.set('trust proxy', 1)
const requireDid = setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  // The public URL, not the address on which this process listens: wallets sign its host.
  serviceUrl: 'https://app.example',
  serviceDid: await didOfPrivateKey(privateKey),
  serviceSigner: es256kSigner(privateKey),
  maxRequestsPerTimeSlot: 1000
})
app.get('/profile', requireDid, (req, res) => {
  res.json({ did: req.user?.did, ip: req.ip, https: req.secure })
})
const server = app.listen(3001)

// Stands in for nginx, Caddy or a load balancer, which also terminates TLS. It overwrites the client's own headers.
const proxy = createServer((req, res) => {
  const { port } = server.address() as AddressInfo
  const headers = {
    ...req.headers,
    'x-forwarded-for': req.socket.remoteAddress,
    'x-forwarded-proto': 'https',
    'x-forwarded-host': 'app.example'
  }
  const forwarded = request({ port, method: req.method, path: req.url, headers }, (answer) => {
    res.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(res)
  })
  forwarded.on('error', () => {
    res.writeHead(502).end()
  })
  req.pipe(forwarded)
})
proxy.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
