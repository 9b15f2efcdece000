/** Child process: sends requests of one kind at a steady rate until killed. `load.ts <port> <kind> <per second>` */
import { connect } from 'node:net'
import { applyOpenLoad } from './harness.js'
import { BARE, ConnectionPool, logIn } from './http-client.js'
import { createBenchWallet, createFreshWallet, type BenchWallet } from './wallets.js'

const [port, kind, perSecond] = [Number(process.argv[2]), process.argv[3], Number(process.argv[4])]
/** User who has opened a foreign page, and logs in from the same network: see `strangers.ts`. */
const visitor = createBenchWallet(1)
const anySig = createBenchWallet(2).personalSign('anything')
const forwardedFor = (address: string): string => `X-Forwarded-For: ${address}\r\n`
const createDid = (number: number): string => `did:ethr:rsk:0x${String(number).padStart(40, '0')}`
const pool = new ConnectionPool(port)

/**
 * Returns a load of sign-ups with 20 credentials. Their issuers are the attacker's, and `server.ts` has the documents.
 */
const signUpWithIssuers =
  (document: 'huge' | 'silent' | 'many') =>
  (number: number): Promise<unknown> =>
    pool.use(async (connection) => {
      const wallet = createFreshWallet()
      const response = await connection.post('/request-signup', { did: wallet.did }, forwardedFor('192.0.2.2'))
      const { challenge } = JSON.parse(response.body) as { challenge: string }
      const issuer = `did:web:${document}-${String(number)}.example`
      const credentials = Array.from({ length: 20 }, (_, index) => signCredential(`${issuer}:${String(index)}`, wallet))
      const text = `Login to bench.example\nVerification code: ${challenge}\nMy credentials are: ${credentials.join(',')}`
      await connection.post(
        '/signup',
        { did: wallet.did, sig: wallet.personalSign(text), credentials },
        forwardedFor('192.0.2.2')
      )
    })

const kinds: Record<string, (number: number) => Promise<unknown>> = {
  logins: () => pool.use((connection) => logIn(connection, createFreshWallet())),
  bareLogins: () => pool.use((connection) => logIn(connection, createFreshWallet(), BARE)),
  /** Control of the strangers: as many harmless requests. */
  notFound: () => pool.use((connection) => connection.get('/nothing-here', forwardedFor('192.0.2.4'))),
  proofs: (number) =>
    pool.use((connection) =>
      connection.post('/auth', { did: createDid(number), sig: anySig }, forwardedFor('192.0.2.1'))
    ),
  hugeIssuers: signUpWithIssuers('huge'),
  silentIssuers: signUpWithIssuers('silent'),
  issuersOf100Keys: signUpWithIssuers('many'),
  pages: () => {
    const headers = `${forwardedFor('10.255.0.1')}Sec-Fetch-Site: cross-site\r\n`
    return pool.use((connection) => connection.get(`/request-auth/${visitor.did}`, headers))
  },
  resets: (number) =>
    new Promise<void>((resolve) => {
      const body = JSON.stringify({ did: createDid(number), sig: anySig })
      const head = `POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${forwardedFor('192.0.2.3')}`
      const socket = connect(port, '127.0.0.1').on('error', () => undefined)
      socket.on('close', () => resolve())
      socket.write(`${head}Content-Length: ${String(body.length)}\r\n\r\n${body}`, () => void socket.resetAndDestroy())
    })
}

/** Returns a credential of an attacker's issuer, with an invalid signature. */
function signCredential(iss: string, { did }: BenchWallet): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const type = ['VerifiableCredential']
  const vc = { '@context': ['https://www.w3.org/2018/credentials/v1'], type, credentialSubject: { id: did } }
  const payload = { iss, sub: did, nbf: 1_700_000_000, vc }
  return `${part({ alg: 'ES256', typ: 'JWT' })}.${part(payload)}.${Buffer.alloc(64, 1).toString('base64url')}`
}

const send = kinds[kind ?? '']
if (send === undefined) throw new Error(`no load of the kind ${String(kind)}`)
process.on('disconnect', () => process.exit())
// A client whose request fails continues with the next one.
await applyOpenLoad(perSecond, Infinity, (index) => send(index).catch(() => undefined))
