/**
 * `npm run figures`: the reliability figures at their full size, one script after the other, which takes some hours.
 * `npm run figures -- vault servers` runs those alone, and `npm run figures -- vault 5 1 50` one with fewer rounds.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const scenarios = [
  'protocol',
  'stores',
  'postgres',
  'http',
  'honest-clients',
  'strangers',
  'slow-clients',
  'servers',
  'relay',
  'vault',
  'soak'
]

const args = process.argv.slice(2)
const rounds = args.filter((arg) => /^\d+$/.test(arg))
const chosen = args.filter((arg) => !rounds.includes(arg))
const unknown = chosen.find((name) => !scenarios.includes(name))
if (unknown !== undefined) throw new Error(`${unknown} is none of ${scenarios.join(', ')}`)

const pathOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const imports = ['tsx', new URL('../support/server-imports.ts', import.meta.url).href]

/** What Jest runs before and after its tests. It is JavaScript. */
const hook = async (name: string): Promise<void> => {
  const { default: run } = (await import(`../../.config/${name}.js`)) as { default: () => Promise<void> }
  await run()
}

await hook('compile-for-tests')
for (const scenario of chosen.length === 0 ? scenarios : chosen) {
  console.log(`\n${scenario}`)
  const script = pathOf(`figures-${scenario}.ts`)
  const { status } = spawnSync(
    process.execPath,
    [...imports.flatMap((name) => ['--import', name]), script, ...rounds],
    {
      stdio: 'inherit'
    }
  )
  if (status !== 0) process.exitCode = 1
}
await hook('remove-compiled')
