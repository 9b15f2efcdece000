/**
 * Runs figures: `npm run bench` measures speed, and `npm run figures` measures reliability and the stores at full size.
 *
 * `npm run figures -- F4 postgres` runs only these figures. `npm run figures -- F4 0.01` runs a hundredth of the
 * rounds. Other numbers and words are passed to the scripts. A figure is a test with more rounds, or a script of this
 * folder.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Row of the table in README.md. `npm test` and `npm run test:slow` run the other figures at full size. */
interface Figure {
  id: string
  command: string
  /** Tests, relative to the folder of tests and without `.test.ts`. */
  tests?: string[]
  /** Script of this folder, without `.ts`. */
  script?: string
}

const resolvePath = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const listed = JSON.parse(readFileSync(resolvePath('figures.json'), 'utf8')) as Figure[]
const [, , command = 'figures', ...args] = process.argv
const figures = listed.filter((figure) => figure.command === `npm run ${command}`)
const variants = ['native', 'wasm', 'sqlite', 'siwe']
const isNamed = ({ id, script = '' }: Figure): boolean =>
  args.includes(id) || args.includes(script) || (script === 'library' && args.some((arg) => variants.includes(arg)))
const isAll = !figures.some(isNamed) && !args.some((arg) => /^[A-Z]\d+$/.test(arg))
const chosen = isAll ? figures : figures.filter(isNamed)
const share = args.find((arg) => /^0\.\d+$/.test(arg)) ?? '1'

function run(title: string, options: readonly string[], env: Record<string, string>): void {
  console.log(`\n${title}`)
  const allVariables = { ...process.env, ...env }
  const { status } = spawnSync(process.execPath, options, {
    stdio: 'inherit',
    cwd: resolvePath('../..'),
    env: allVariables
  })
  if (status !== 0) process.exitCode = 1
}

const tests = [...new Set(chosen.flatMap((figure) => figure.tests ?? []))]
for (const config of ['jest', 'jest.slow']) {
  const files = tests.filter((file) => file.endsWith('.slow') === (config === 'jest.slow'))
  if (files.length === 0) continue
  const flags = ['--disable-warning=ExperimentalWarning', '--experimental-vm-modules']
  const jest = ['node_modules/jest/bin/jest.js', '--config', `.config/${config}.config.js`, '--runInBand']
  run('tests', [...flags, ...jest, ...files.map((file) => `test/${file}.test.ts`)], { FIGURES: share })
}
const scripts = new Set(chosen.flatMap(({ script }) => script ?? []))
const words = args.filter((arg) => !scripts.has(arg) && arg !== share)
// Measured servers import the build by the name of the package. Figures that inspect internals import the sources.
const env = { TSX_TSCONFIG_PATH: resolvePath('../../.config/tsconfig.servers.json') }
const imports = ['tsx', new URL('../support/servers/server-imports.ts', import.meta.url).href]
const runHook = async (name: string): Promise<void> => {
  const { default: work } = (await import(`../../.config/${name}.js`)) as { default: () => Promise<void> }
  await work()
}
if (scripts.size > 0) await runHook('compile-for-tests')
for (const script of scripts) {
  const options = imports.flatMap((name) => ['--import', name])
  run(script, [...options, resolvePath(`${script}.ts`), ...words], env)
}
if (scripts.size > 0) await runHook('remove-compiled')
