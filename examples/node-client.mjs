// A client without a browser: it logs in with a key, stays logged in, and lists its notes and sessions.
import { readFile, rm, writeFile } from 'node:fs/promises'
import { Wallet } from 'ethers'
import { DidAuthClient } from 'express-did-auth-client'

/**
 * Your own storage needs only three functions. With this one, the session survives restarts. Use it in one process only.
 */
function fileStorage(path) {
  const read = async () => JSON.parse(await readFile(path, 'utf8').catch(() => '{}'))
  const write = (values) => writeFile(path, JSON.stringify(values), { mode: 0o600 })
  return {
    isPrivate: true,
    get: async (key) => (await read())[key],
    set: async (key, value) => write({ ...(await read()), [key]: value }),
    delete: async (key) => write({ ...(await read()), [key]: undefined })
  }
}

const path = process.env.SESSION_FILE ?? 'session.json'
const wallet = process.env.WALLET_KEY ? new Wallet(process.env.WALLET_KEY) : Wallet.createRandom()
const url = process.env.SERVICE_URL ?? 'http://localhost:3000'
const auth = new DidAuthClient({ url, wallet, domain: process.env.LOGIN_DOMAIN, storage: fileStorage(path) })

await auth.ready
console.log(auth.session ? 'still logged in' : 'logging in')
if (!auth.session) await auth.logIn()
try {
  const answer = await auth.fetch('/notes', { signal: AbortSignal.timeout(10_000) })
  console.log(answer.status, await answer.text())
  console.log('sessions:', (await auth.sessions()).length)
} catch (error) {
  if (error.code !== 'SESSION_ENDED') throw error
  console.log(error.userMessage)
  await rm(path, { force: true })
}
