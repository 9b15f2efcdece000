/** P14: a guarded request at the vault with a token of the auth server, compared with a token of the vault. */
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { isChosen, measure } from './harness.js'
import { assertStatus, Connection, logIn } from './http-client.js'
import { measureStepCost, startBin } from './servers.js'
import { createFreshWallets } from './wallets.js'

const USERS = 16
const REQUESTS = 8_000

if (isChosen('P14')) {
  const folder = temporaryFolder()
  const ports = { AUTH_PORT: '0', RELAY_PORT: '0', VAULT_PORT: '0' }
  const domains = { LOGIN_DOMAINS: 'bench.example' }
  const all = await startBin('all', { DATA_DIR: folder.path, ...ports, ...domains })
  const [auth, , vault] = all.servers
  const readPort = (server: typeof auth): number => Number(new URL(server!.url).port)
  const atVault = { ...all, port: readPort(vault) }

  const [vaultTokens, resourceTokens]: [string[], string[]] = [[], []]
  const [authConnection, vaultConnection] = [new Connection(readPort(auth)), new Connection(atVault.port)]
  for (const wallet of createFreshWallets(USERS)) {
    const { accessToken } = await logIn(authConnection, wallet)
    const header = `Authorization: DIDAuth ${accessToken}\r\n`
    const body = { resource: vault!.serviceUrl }
    const answer = assertStatus(await authConnection.post('/resource-token', body, header))
    resourceTokens.push(`Bearer ${(JSON.parse(answer.body) as { accessToken: string }).accessToken}`)
    vaultTokens.push(`DIDAuth ${(await logIn(vaultConnection, wallet)).accessToken}`)
  }
  const readWith = (tokens: readonly string[]) => () =>
    measureStepCost(atVault, REQUESTS, async (connection, index) => {
      assertStatus(await connection.get('/storage', `Authorization: ${tokens[index % USERS]!}\r\n`))
    })
  await measure(
    'P14 guarded GET at the vault with a token of auth over one with its own',
    { goal: '>= 0.90', unit: 'µs CPU' },
    { own: readWith(vaultTokens), resource: readWith(resourceTokens) }
  )
  authConnection.close()
  vaultConnection.close()
  await all.stop()
  folder.remove()
}
