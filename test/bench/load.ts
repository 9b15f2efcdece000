/** Child process: sends requests of one kind at a steady rate until killed. `load.ts <port> <kind> <per second>` */
import { connect } from 'node:net'
import { openLoad } from './harness.js'
import { BARE, ConnectionPool, logIn } from './http-client.js'
import { benchWallet, freshWallet, type BenchWallet } from './wallets.js'

const [port, kind, perSecond] = [Number(process.argv[2]), process.argv[3], Number(process.argv[4])]
/** Has a foreign page open, and logs in from the same network: see `strangers.ts`. */
const visitor = benchWallet(1)
const anySig = benchWallet(2).personalSign('anything')
const from = (address: string): string => `X-Forwarded-For: ${address}\r\n`
const didOf = (number: number): string => `did:ethr:rsk:0x${String(number).padStart(40, '0')}`
const pool = new ConnectionPool(port)

/** Signs up with 20 credentials of the attacker's own issuers, whose documents `server.ts` makes up. */
const signUpWithIssuers =
  (document: 'huge' | 'silent' | 'many') =>
  (number: number): Promise<unknown> =>
    pool.use(async (connection) => {
      const wallet = freshWallet()
      const asked = await connection.post('/request-signup', { did: wallet.did }, from('192.0.2.2'))
      const { challenge } = JSON.parse(asked.body) as { challenge: string }
      const issuer = `did:web:${document}-${String(number)}.example`
      const credentials = Array.from({ length: 20 }, (_, index) => credentialOf(`${issuer}:${String(index)}`, wallet))
      const text = `Login to bench.example\nVerification code: ${challenge}\nMy credentials are: ${credentials.join(',')}`
      await connection.post(
        '/signup',
        { did: wallet.did, sig: wallet.personalSign(text), credentials },
        from('192.0.2.2')
      )
    })

const kinds: Record<string, (number: number) => Promise<unknown>> = {
  logins: () => pool.use((connection) => logIn(connection, freshWallet())),
  bareLogins: () => pool.use((connection) => logIn(connection, freshWallet(), BARE)),
  /** The control of strangers: what so many requests cost that do no harm. */
  notFound: () => pool.use((connection) => connection.get('/nothing-here', from('192.0.2.4'))),
  proofs: (number) =>
    pool.use((connection) => connection.post('/auth', { did: didOf(number), sig: anySig }, from('192.0.2.1'))),
  hugeIssuers: signUpWithIssuers('huge'),
  silentIssuers: signUpWithIssuers('silent'),
  issuersOf100Keys: signUpWithIssuers('many'),
  pages: () => {
    const headers = `${from('10.255.0.1')}Sec-Fetch-Site: cross-site\r\n`
    return pool.use((connection) => connection.get(`/request-auth/${visitor.did}`, headers))
  },
  resets: (number) =>
    new Promise<void>((resolve) => {
      const body = JSON.stringify({ did: didOf(number), sig: anySig })
      const head = `POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${from('192.0.2.3')}`
      const socket = connect(port, '127.0.0.1').on('error', () => undefined)
      socket.on('close', () => resolve())
      socket.write(`${head}Content-Length: ${String(body.length)}\r\n\r\n${body}`, () => void socket.resetAndDestroy())
    })
}

/** A credential that names an issuer of the attacker's, with a signature of no key. */
function credentialOf(iss: string, { did }: BenchWallet): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const type = ['VerifiableCredential']
  const vc = { '@context': ['https://www.w3.org/2018/credentials/v1'], type, credentialSubject: { id: did } }
  const payload = { iss, sub: did, nbf: 1_700_000_000, vc }
  return `${part({ alg: 'ES256', typ: 'JWT' })}.${part(payload)}.${Buffer.alloc(64, 1).toString('base64url')}`
}

const send = kinds[kind ?? '']
if (send === undefined) throw new Error(`no load of the kind ${String(kind)}`)
process.on('disconnect', () => process.exit())
// A client whose request fails goes on with the next.
await openLoad(perSecond, Infinity, (index) => send(index).catch(() => undefined))
