/**
 * Strangers at a server, as a process of its own: `strangers-load.ts <port> <kind> <per second>`, until it is killed.
 */
import { connect } from 'node:net'
import { benchWallet, type BenchWallet } from './bench-wallet.js'
import { ConnectionPool } from './http-client.js'
import { openLoad } from './open-load.js'

const [port, kind, perSecond] = [Number(process.argv[2]), process.argv[3], Number(process.argv[4])]
/** The visitor of the foreign page: `figures-strangers.ts` logs it in from the same network. */
const visitor = benchWallet(1)
const anySig = benchWallet(2).personalSign('anything')
const from = (address: string): string => `X-Forwarded-For: ${address}\r\n`

const pool = new ConnectionPool(port)
let walletNumber = 50_000_000 + (process.pid % 1_000) * 100_000

/** Signs up with 20 credentials of the attacker's own issuers, whose documents `strangers-server.ts` makes up. */
const signUpWithIssuers =
  (document: 'huge' | 'silent' | 'many') =>
  (number: number): Promise<unknown> =>
    pool.use(async (connection) => {
      const wallet = benchWallet(walletNumber++)
      const asked = await connection.post('/request-signup', { did: wallet.did }, from('192.0.2.2'))
      const { challenge } = JSON.parse(asked.body) as { challenge: string }
      const issuer = `did:web:${document}-${String(number)}.example`
      const credentials = Array.from({ length: 20 }, (_, index) => credentialOf(`${issuer}:${String(index)}`, wallet))
      const text = `Login to bench.example\nVerification code: ${challenge}\nMy credentials are: ${credentials.join(',')}`
      const body = { did: wallet.did, sig: wallet.personalSign(text), credentials }
      await connection.post('/signup', body, from('192.0.2.2'))
    })

const kinds: Record<string, (number: number) => Promise<unknown>> = {
  /** The control: what so many requests cost that do no harm. */
  notFound: () => pool.use((connection) => connection.get('/nothing-here', from('192.0.2.4'))),
  proofs: (number) => {
    const did = `did:ethr:rsk:0x${String(number).padStart(40, '0')}`
    return pool.use((connection) => connection.post('/auth', { did, sig: anySig }, from('192.0.2.1')))
  },
  hugeIssuers: signUpWithIssuers('huge'),
  silentIssuers: signUpWithIssuers('silent'),
  issuersOf100Keys: signUpWithIssuers('many'),
  pages: () =>
    pool.use((connection) =>
      connection.get(`/request-auth/${visitor.did}`, `${from('10.255.0.1')}Sec-Fetch-Site: cross-site\r\n`)
    ),
  resets: (number) =>
    new Promise<void>((resolve) => {
      const did = `did:ethr:rsk:0x${String(number).padStart(40, '0')}`
      const body = JSON.stringify({ did, sig: anySig })
      const head = `POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${from('192.0.2.3')}`
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => undefined)
      socket.on('close', () => {
        resolve()
      })
      socket.write(`${head}Content-Length: ${String(body.length)}\r\n\r\n${body}`, () => void socket.resetAndDestroy())
    })
}

/** A credential that names an issuer of the attacker's, with a signature of no key. */
function credentialOf(issuer: string, { did }: BenchWallet): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const payload = {
    iss: issuer,
    sub: did,
    nbf: 1_700_000_000,
    vc: {
      '@context': ['https://www.w3.org/2018/credentials/v1'],
      type: ['VerifiableCredential'],
      credentialSubject: { id: did }
    }
  }
  return `${part({ alg: 'ES256', typ: 'JWT' })}.${part(payload)}.${Buffer.alloc(64, 1).toString('base64url')}`
}

const send = kinds[kind ?? '']
if (send === undefined) throw new Error(`no strangers of the kind ${String(kind)}`)
process.on('disconnect', () => process.exit())
// A stranger whose request fails goes on with the next.
await openLoad(perSecond, Infinity, (index) => send(index).catch(() => undefined))
