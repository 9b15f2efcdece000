import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import express, { type Express } from 'express'
import { recoverMessageAddress, type Hex } from 'viem'
import { parseSiweMessage } from 'viem/siwe'

/** Faults that a backend of EIP-4361 can have. */
export type SiweFault =
  | 'one nonce for all'
  | 'nonce good twice'
  | 'nonce consumed late'
  | 'nonce burnt by a bad signature'
  | 'any nonce'
  | 'any signature'
  | 'any domain'
  | 'any URI'
  | 'no end'
  | 'no beginning'
  | 'text behind the message'
  | 'nonce kept by the client'
  | 'forms of any page'
  | 'scripts of any page'
  | 'status 200 for all'

/**
 * Adds a backend of EIP-4361, as other developers write it with viem, in front of the routes of an application.
 *
 * @param cookie - cookie that a login sets instead of sending tokens in its body
 */
export function addToySiweBackend(app: Express, domain: string, fault?: SiweFault, cookie?: string): void {
  const nonces = new Set<string>()
  const issue = (): string => {
    const nonce = fault === 'one nonce for all' ? 'a'.repeat(32) : randomBytes(16).toString('hex')
    nonces.add(nonce)
    return nonce
  }
  app.use('/siwe', (_req, res, next) => {
    if (fault === 'scripts of any page') {
      res.set({ 'Access-Control-Allow-Origin': 'https://other.example', 'Access-Control-Allow-Credentials': 'true' })
    }
    next()
  })
  app.get('/siwe/nonce', (_req, res) => {
    const nonce = issue()
    if (fault === 'nonce kept by the client') res.set('Set-Cookie', `nonce=${nonce}; HttpOnly; SameSite=Lax`)
    res.set('Cache-Control', 'no-store').type('text/plain').send(nonce)
  })
  app.post('/siwe/nonce', (_req, res) => void res.set('Cache-Control', 'no-store').json({ nonce: issue() }))
  if (fault === 'forms of any page') app.use(express.urlencoded({ extended: true }))
  app.post('/siwe/verify', express.json(), async (req, res) => {
    const { message = '', signature = '0x' } = (req.body ?? {}) as { message?: string; signature?: Hex }
    const { address, chainId, nonce = '', uri = '', ...fields } = parseSiweMessage(message)
    const isValid = [
      fault === 'any nonce' || nonces.has(nonce) || req.headers.cookie === `nonce=${nonce}`,
      fault === 'any domain' || fields.domain === domain,
      fault === 'any URI' || fault === 'any domain' || new URL(uri).host === domain,
      fault === 'no end' || !(fields.expirationTime !== undefined && fields.expirationTime.getTime() < Date.now()),
      fault === 'no beginning' || !(fields.notBefore !== undefined && fields.notBefore.getTime() > Date.now()),
      fault === 'text behind the message' || !message.endsWith('more'),
      fault === 'any signature' ||
        (await recoverMessageAddress({ message, signature })).toLowerCase() === address?.toLowerCase()
    ].every(Boolean)
    if (fault === 'nonce consumed late') await pause(50)
    if ((isValid && fault !== 'nonce good twice') || fault === 'nonce burnt by a bad signature') nonces.delete(nonce)
    if (isValid && cookie !== undefined) res.set('Set-Cookie', cookie).status(204).end()
    else if (isValid)
      res.set('Cache-Control', 'no-store').json({ accessToken: 'a', refreshToken: 'r', address, chainId })
    else if (fault === 'status 200 for all') res.json({ ok: false })
    else res.status(401).set('WWW-Authenticate', 'DIDAuth realm="toy"').type('text/plain').send('Refused')
  })
}
