/** `npm run figures`: the reliability figures at their full size, one script after the other. Takes some minutes. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const scripts = [
  'figures-protocol.ts',
  'figures-stores.ts',
  'figures-http.ts',
  'figures-honest-clients.ts',
  'figures-strangers.ts',
  'figures-servers.ts',
  'figures-relay.ts',
  'figures-vault.ts',
  'figures-soak.ts'
]

for (const script of scripts) {
  const file = fileURLToPath(new URL(script, import.meta.url))
  if (!existsSync(file)) throw new Error(`${script} is missing`)
  console.log(`\n${script}`)
  const { status } = spawnSync(process.execPath, ['--import', 'tsx', file], { stdio: 'inherit' })
  if (status !== 0) process.exitCode = 1
}
