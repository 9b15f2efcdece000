/**
 * P16: refresh of a session that is bound to a device, compared with one that is not. P17: sign up with a credential
 * whose status list is cached, compared with a credential of the same size without status. Each figure uses one server,
 * because two processes of the same program differ by more than the cost of a status.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createDevice } from '../support/fixtures/device.js'
import { createCredentialJwt, createCredentialPayload } from '../support/fixtures/credentials.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import { createStatusEntry, signStatusList } from '../support/fixtures/status-lists.js'
import { isChosen, measure } from './harness.js'
import { assertStatus, Connection, tryLogin, type Tokens } from './http-client.js'
import { measureStepCost, startServer } from './servers.js'
import { createFreshWallet, createFreshWallets, createDeviceKey, SERVICE_URL, type BenchWallet } from './wallets.js'

const CLIENTS = 16
const unit = 'µs CPU'

if (isChosen('P16')) await measureBoundRefresh()
if (isChosen('P17')) await measureSignUp()

async function measureBoundRefresh(): Promise<void> {
  const server = await startServer('device-binding')
  const devices = Array.from({ length: CLIENTS }, () => createDevice(createDeviceKey()))
  const connection = new Connection(server.port)
  const { headers } = await connection.post('/request-auth', { did: createFreshWallet().did })
  const nonce = /dpop-nonce: (\w+)/i.exec(headers)![1]!
  // A proof may be repeated while its nonce is valid, so that the client computes nothing during the measurement.
  const prove = (path: string): string[] =>
    devices.map((device) => `DPoP: ${device.prove({ url: SERVICE_URL + path, nonce })}\r\n`)
  const [loginProofs, refreshProofs] = [prove('/auth'), prove('/refresh-token')]
  const logInAll = async (proofs: readonly string[]): Promise<Tokens[]> => {
    const tokens: Tokens[] = []
    for (let client = 0; client < CLIENTS; client += 1) {
      const answer = await tryLogin(connection, createFreshWallet(), { headers: proofs[client] ?? '' })
      tokens.push(JSON.parse(assertStatus(answer).body) as Tokens)
    }
    return tokens
  }
  const refresh = (tokens: Tokens[], proofs: readonly string[]): Promise<number> =>
    measureStepCost(server, 5_000, async (open, _index, worker) => {
      const { refreshToken } = tokens[worker]!
      const answer = await open.post('/refresh-token', { refreshToken }, proofs[worker] ?? '')
      tokens[worker] = JSON.parse(assertStatus(answer).body) as Tokens
    })
  const [plain, bound] = [await logInAll([]), await logInAll(loginProofs)]
  connection.close()
  await measure(
    'P16 refresh of a bound session over a plain one',
    { goal: '>= 0.85', unit },
    { plain: () => refresh(plain, []), bound: () => refresh(bound, refreshProofs) }
  )
  await server.stop()
}

async function measureSignUp(): Promise<void> {
  const issuer = createNumberedWallet(6401)
  const list = signStatusList(issuer, [9])
  const host = createServer((_req, res) => res.end(list)).listen(0, '127.0.0.1')
  await new Promise((resolve) => host.once('listening', resolve))
  const entry = createStatusEntry(`http://127.0.0.1:${String((host.address() as AddressInfo).port)}/list`)
  const server = await startServer('credentials', [issuer.did])
  // Nothing reads `termsOfUse......`, which has the length of `credentialStatus`.
  const signUpAll = (member: 'credentialStatus' | 'termsOfUse......'): Promise<number> => {
    const users = createFreshWallets(500).map((wallet): [BenchWallet, string] => {
      const { vc } = createCredentialPayload(issuer.did, wallet.did)
      return [wallet, createCredentialJwt(issuer, wallet.did, { vc: { ...vc, [member]: entry } })]
    })
    return measureStepCost(server, users.length, (connection, index) => signUp(connection, ...users[index]!))
  }
  await measure(
    'P17 sign up with a cached status list over one without',
    { goal: '>= 0.95', unit, rounds: 25 },
    { without: () => signUpAll('termsOfUse......'), with: () => signUpAll('credentialStatus') }
  )
  await server.stop()
  host.close()
}

async function signUp(connection: Connection, { did, personalSign }: BenchWallet, credential: string): Promise<void> {
  const { body } = assertStatus(await connection.post('/request-signup', { did }))
  const { challenge } = JSON.parse(body) as { challenge: string }
  const text = `Login to bench.example\nVerification code: ${challenge}\nMy credentials are: ${credential}`
  assertStatus(await connection.post('/signup', { did, sig: personalSign(text), credentials: [credential] }))
}
