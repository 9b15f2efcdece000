import './env.js'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url' // not --vite
import express from 'express'
import { es256kSigner, memoryStore, setupDidAuth } from 'express-did-auth'

// Variables of the file .env, or of the environment.
const { CHALLENGE_SECRET = '', PRIVATE_KEY = '', SERVICE_URL = '' } = process.env
// The page loads these modules. In production, bundle it with Vite or esbuild instead. // not --vite
const client = new URL('..', import.meta.resolve('express-did-auth-client')) // not --vite
const ethers = new URL('../dist/', import.meta.resolve('ethers')) // not --vite

/** Creates the app. The server passes its store, and each test uses a new memory store. */
export function createApp(store = memoryStore()) {
  const api = express.Router()
  const requireDid = setupDidAuth(api, {
    challengeSecret: CHALLENGE_SECRET,
    serviceUrl: SERVICE_URL, // what the address bar shows, without /api
    serviceSigner: es256kSigner(PRIVATE_KEY),
    useCookies: true, // --cookies
    sessionPath: '/session', // --cookies
    maxRequestsPerTimeSlot: 1000, // per user in ten minutes; a page soon reaches the default of 20
    store
  })
  api.get('/profile', requireDid, (req, res) => res.json(req.user))

  const app = express()
  app.use('/api', api)
  app.use(express.static(join(import.meta.dirname, 'dist'))) // --vite
  app.use(express.static(join(import.meta.dirname, 'public'))) // not --vite
  app.use('/client', express.static(fileURLToPath(client))) // not --vite
  app.use('/ethers', express.static(fileURLToPath(ethers))) // not --vite
  return app
}
