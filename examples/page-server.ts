/**
 * Serves a page that logs in with tokens in cookies, or with MODE=header in headers. It needs no bundler.
 */
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import express from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'
import type {} from 'express-did-auth/types'

const mode = process.env.MODE === 'header' ? 'header' : 'cookies'
const privateKey = process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')
const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl: 'http://localhost:3000',
  serviceDid: await didOfPrivateKey(privateKey),
  serviceSigner: es256kSigner(privateKey),
  useCookies: mode === 'cookies',
  maxRequestsPerTimeSlot: 1000,
  sessionPath: '/session',
  sessionsPath: '/sessions'
})

const notes = new Map<string, string[]>()
app.get('/notes', requireDid, (req, res) => {
  res.json(notes.get(req.auth?.canonicalDid ?? '') ?? [])
})
app.post('/notes', requireDid, express.text(), (req, res) => {
  const user = req.auth?.canonicalDid ?? ''
  notes.set(user, [...(notes.get(user) ?? []), String(req.body)])
  res.sendStatus(201)
})

// Serves the page, its style and script, and the modules of the client. Build your own page with Vite or esbuild.
const here = dirname(fileURLToPath(import.meta.url))
const client = dirname(createRequire(import.meta.url).resolve('express-did-auth-client/package.json'))
app.get('/', (_req, res) => res.sendFile(join(here, 'page.html')))
app.get('/page.css', (_req, res) => res.sendFile(join(here, 'page.css')))
app.get('/page.mjs', (_req, res) => res.sendFile(join(here, `page-${mode}.mjs`)))
app.use('/express-did-auth-client', express.static(join(client, 'dist')))
app.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
