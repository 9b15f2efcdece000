/** Sessions that survive a restart, in an SQLite file, and routes that list and end the user's sessions. */
import { mkdirSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import express from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'
import { sqliteStore } from 'express-did-auth/stores/sqlite'

const dataDir = process.env.DATA_DIR ?? './data'
mkdirSync(dataDir, { recursive: true })
const store = sqliteStore(`${dataDir}/sessions.db`)

// Sessions survive a restart only if PRIVATE_KEY and CHALLENGE_SECRET stay the same.
const privateKey = process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')
const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl: 'http://localhost:3000',
  serviceDid: await didOfPrivateKey(privateKey),
  serviceSigner: es256kSigner(privateKey),
  maxRequestsPerTimeSlot: 1000,
  store
})

app.get('/sessions', requireDid, async (req, res) => {
  const sessions = await requireDid.sessions.list(req.user?.did ?? '')
  res.json(sessions.map(({ sessionId, createdAtSeconds }) => ({ sessionId, createdAtSeconds })))
})
app.delete('/sessions', requireDid, async (req, res) => {
  res.json({ ended: await requireDid.sessions.revokeAll(req.user?.did ?? '') })
})

const server = app.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
process.once('SIGTERM', () => {
  server.close(() => {
    void requireDid.close().then(() => store.close())
  })
})
