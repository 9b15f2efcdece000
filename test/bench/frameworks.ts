/** P19: the adapter for the Fetch API on Hono and on Bun, each compared with a bare route of the same application. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isChosen, measure, reportFigure } from './harness.js'
import { assertStatus, BARE, Connection, logIn } from './http-client.js'
import { measureStepCost, startFetchServer, type BenchServer, type Step } from './servers.js'
import { createFreshWallets } from './wallets.js'

const BUN = fileURLToPath(new URL('../slow/node_modules/@oven/bun-linux-x64/bin/bun', import.meta.url))
const GETS = 8_000
const LOGINS = 600

async function measureFramework(name: string, server: BenchServer): Promise<void> {
  const connection = new Connection(server.port)
  const tokens: string[] = []
  for (const wallet of createFreshWallets(16)) tokens.push((await logIn(connection, wallet)).accessToken)
  connection.close()
  // Both requests are identical, so that the comparison measures the guard and not the length of a header.
  const getFrom =
    (path: string): Step =>
    async (client, index) => {
      assertStatus(await client.get(path, `Authorization: DIDAuth ${tokens[index % tokens.length]!}\r\n`))
    }
  await measure(
    `P19 guarded GET, token seen before, ${name}`,
    { goal: 'none', unit: 'µs CPU' },
    {
      bare: () => measureStepCost(server, GETS, getFrom('/bare')),
      guarded: () => measureStepCost(server, GETS, getFrom('/guarded'))
    }
  )
  const logInAt = (paths?: typeof BARE) => () => {
    const wallets = createFreshWallets(LOGINS)
    return measureStepCost(server, LOGINS, (client, index) => logIn(client, wallets[index]!, paths))
  }
  await measure(
    `P19 challenge + login, ${name}`,
    { goal: 'none', unit: 'µs CPU' },
    { bare: logInAt(BARE), login: logInAt() }
  )
}

if (isChosen('P19')) {
  for (const [name, program] of [
    ['Hono on Node', process.execPath],
    ['Bun', BUN]
  ] as const) {
    if (!existsSync(program)) {
      reportFigure('P19', `${name} is not installed`)
      continue
    }
    const server = await startFetchServer(program)
    await measureFramework(name, server)
    await server.stop()
  }
}
