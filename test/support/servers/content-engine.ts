import { afterEach } from '@jest/globals'
import { readEnv } from '../../../servers/config/read-env.js'
import { Connections } from '../../../servers/content/connections.js'
import { openContentEngine } from '../../../servers/content/engine.js'
import type { Dependency } from '../../../servers/observability/health-checks.js'
import { temporaryFolder } from '../fixtures/store-folder.js'

const closing: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

/** Opens the connections of a server until the end of the test, and returns a function that opens its engine. */
export async function openVault(variables: Record<string, string>, name: 'relay' | 'vault' = 'vault') {
  const { path, remove } = temporaryFolder()
  closing.push(remove)
  const env = readEnv({ DATA_DIR: path, ...variables }, name, false, 'operate')
  const connections = await Connections.open(env)
  closing.push(() => connections.close())
  const open = async () => {
    const engine = await openContentEngine(env, connections)
    closing.push(() => engine.close())
    return { ...engine, contents: engine.contents.store }
  }
  return { env, connections, open }
}

/** Checks dependencies, and returns for each name whether it is needed, and its state. */
export const readStates = async (dependencies: readonly Dependency[]): Promise<Record<string, unknown>> =>
  Object.fromEntries(
    await Promise.all(
      dependencies.map(async ({ name, isNeeded, check }) => {
        const state = await check(new AbortController().signal).then(
          () => 'ok',
          (error: unknown) => String(error)
        )
        return [name, [isNeeded, state]] as const
      })
    )
  )
