import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { isBuiltin } from 'node:module'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const USAGE = 'npx express-did-auth init [folder] [--cookies] [--typescript] [--vite] [--store sqlite|postgres]'
const STORES = ['memory', 'sqlite', 'postgres']
const ownFolder = fileURLToPath(new URL('..', import.meta.url))

interface Choices {
  readonly cookies: boolean
  readonly typescript: boolean
  readonly vite: boolean
  readonly store: string
}

/** Versions by name of a package, as in package.json. */
type Packages = Record<string, string>

/**
 * Writes an app with a login, its page, its keys and its test into a folder. It writes nothing if a file exists.
 *
 * @param args - words after `init` on the command line
 * @returns the text to print, which ends with the two commands that follow
 * @throws Error with one sentence for the user
 */
export function init(args: string[]): string {
  const { folder, ...choices } = parseChoices(args)
  const target = resolve(folder)
  const files = createFiles(choices)
  const ignored = join(target, '.gitignore')
  if (existsSync(ignored) && /^\/?\.env\r?$/m.test(readFileSync(ignored, 'utf8'))) files.delete('.gitignore')
  if (existsSync(join(target, 'README.md'))) files.delete('README.md')
  const existing = [...files.keys()].filter((name) => existsSync(join(target, name)))
  if (existing.length > 0) throw new Error(`${target} already contains ${existing.join(', ')}; choose another folder.`)

  const { dependencies, devDependencies } = listPackages(choices, target)
  const scripts = listScripts(choices)
  let commands = ['npm install', choices.vite ? 'npm run dev' : 'npm start']
  let testCommand = 'npm test'
  const manifest = join(target, 'package.json')
  if (existsSync(manifest)) {
    const { type } = JSON.parse(readFileSync(manifest, 'utf8')) as { type?: unknown }
    if (type !== 'module') throw new Error('The app consists of ES modules; run this first: npm pkg set type=module')
    const specs = Object.entries({ ...dependencies, ...devDependencies }).map(([name, version]) =>
      version.startsWith('file:') ? version : name
    )
    commands = [`npm install ${specs.join(' ')}`, scripts.dev ?? scripts.start ?? '']
    testCommand = scripts.test ?? ''
  } else {
    const name = basename(target)
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
    files.set('package.json', toJson({ name, private: true, type: 'module', scripts, dependencies, devDependencies }))
  }
  for (const [name, text] of files) {
    mkdirSync(dirname(join(target, name)), { recursive: true })
    writeFileSync(join(target, name), text, { flag: 'wx', mode: name === '.env' ? 0o600 : 0o666 })
  }
  const path = relative('', target)
  const change = path === '' ? '' : `cd ${/^[\w./-]+$/.test(path) ? path : JSON.stringify(path)} && `
  return `Wrote ${[...files.keys()].join(', ')}.\n\nRun these two commands:\n  ${change}${commands.join('\n  ')}
The login test: ${testCommand}\n`
}

function parseChoices(args: string[]): Choices & { folder: string } {
  try {
    const flag = { type: 'boolean', default: false } as const
    const options = {
      cookies: flag,
      typescript: flag,
      vite: flag,
      store: { type: 'string', default: 'memory' }
    } as const
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    if (!STORES.includes(values.store)) throw new Error(`There is no store ${JSON.stringify(values.store)}`)
    if (positionals.length > 1) throw new Error(`Name one folder, not ${positionals.join(' and ')}`)
    return { ...values, folder: positionals[0] ?? '.' }
  } catch (error) {
    const [problem = ''] = (error as Error).message.split(/[.\n]/)
    throw new Error(`${problem}. Usage: ${USAGE}`, { cause: error })
  }
}

/** Returns the contents of the app's files by path. Its templates are in the folder `examples/starter`. */
function createFiles(choices: Choices): Map<string, string> {
  const extension = choices.typescript ? 'ts' : 'js'
  const read = (path: string): string =>
    adaptTemplate(readFileSync(join(ownFolder, 'examples/starter', path), 'utf8'), choices)
  const key = (): string => randomBytes(32).toString('hex')
  const writeVariables = (
    privateKey: string,
    challengeSecret: string
  ): string => `# Keys of this service. Do not commit this file. In production, set the same variables to other values.
PRIVATE_KEY=${privateKey}
CHALLENGE_SECRET=${challengeSecret}
# The address of the page in the browser, with the port on which the app listens. Wallets sign it, so a login at another
# port or host, such as 127.0.0.1, is refused.
SERVICE_URL=http://localhost:3000
${choices.store === 'postgres' ? 'DATABASE_URL=postgres://postgres@localhost:5432/postgres\n' : ''}`
  const files = new Map([
    ['.env', writeVariables(key(), key())],
    ['.env.example', writeVariables('', '')],
    ['.gitignore', '.env\nnode_modules/\ndist/\ndata/\nsessions.db*\n'],
    ['README.md', createReadme(choices)],
    [`app.${extension}`, read('app.ts')],
    ['env.js', read('env.ts')],
    [`login.test.${extension}`, read('login-test.ts')],
    [`server.${extension}`, read('server.ts')],
    [`store.${extension}`, read(choices.store === 'memory' ? 'store.ts' : `store-${choices.store}.ts`)]
  ])
  if (choices.vite) {
    files.set('dev.js', read('vite/dev.js')).set('vite.config.js', read('vite/vite.config.js'))
    files.set('index.html', read('vite/index.html').replace('page.tsx', `page.${extension}x`))
    files.set(`page.${extension}x`, read('vite/page.tsx')).set('page.css', read('public/page.css'))
  } else {
    for (const name of ['public/index.html', 'public/page.css', 'public/page.js']) files.set(name, read(name))
  }
  if (choices.typescript) {
    const forPage = choices.vite ? { jsx: 'react-jsx', lib: ['es2023', 'dom'] } : {}
    const types = choices.vite ? ['node', 'vite/client'] : ['node']
    const checks = { strict: true, noEmit: true, skipLibCheck: true, types }
    const compilerOptions = { target: 'es2023', module: 'nodenext', ...checks, ...forPage }
    files.set('tsconfig.json', toJson({ compilerOptions, include: ['*.ts', '*.tsx'] }))
  }
  return files
}

/** Creates the page for people who clone the app. */
function createReadme({ typescript, vite }: Choices): string {
  return `# Wallet login

Users log in with their wallet, by [express-did-auth](https://www.npmjs.com/package/express-did-auth).

\`\`\`sh
npm install
cp .env.example .env
node -p "crypto.randomBytes(32).toString('hex')"
${vite ? 'npm run dev' : 'npm start'}
\`\`\`

The third command prints a key: run it twice, and write the keys into \`.env\` as \`PRIVATE_KEY\` and \`CHALLENGE_SECRET\`. Do not commit
this file. In production, the environment has these variables, and \`SERVICE_URL\` is what the address bar shows.

- \`npm test\` runs the login test.${typescript ? '\n- \`npm run types\` checks the types.' : ''}
- The app listens on the port in \`SERVICE_URL\`, or on \`PORT\`. Wallets sign host and port, so open the page at exactly that address.
`
}

/** Removes marks such as `// --cookies` and `// not --cookies`, and the lines whose mark does not fit the choices. */
function adaptTemplate(text: string, choices: Choices): string {
  const lines = text.split('\n').flatMap((line) => {
    const [, code = line, not, option] = /^(.*) \/\/ (not )?--(cookies|typescript|vite)$/.exec(line) ?? []
    const isWanted = option === undefined || choices[option as 'cookies'] === (not === undefined)
    return isWanted ? [code] : []
  })
  return lines.join('\n').replaceAll(/\n{3,}/g, '\n\n')
}

function listScripts({ typescript, vite }: Choices): Partial<Record<'dev' | 'start' | 'test' | 'types', string>> {
  const node = `node${typescript ? ' --import tsx' : ''}`
  const start = `${node} server.${typescript ? 'ts' : 'js'}`
  return {
    ...(vite && { dev: 'node dev.js' }),
    start: vite ? `vite build && ${start}` : start,
    test: `${node} --test login.test.${typescript ? 'ts' : 'js'}`,
    ...(typescript && { types: 'tsc' })
  }
}

function listPackages(
  { store, typescript, vite }: Choices,
  target: string
): Record<`${'d' | 'devD'}ependencies`, Packages> {
  const needsEngine = store === 'sqlite' && !isBuiltin('node:sqlite')
  return {
    dependencies: {
      ethers: '^6.17.0',
      express: '^5.1.0',
      ...findOwnPackages(target),
      ...(store === 'postgres' && { pg: '^8.16.0' }),
      ...(needsEngine && { 'better-sqlite3': '^12.0.0' }),
      ...(vite && { react: '^19.0.0', 'react-dom': '^19.0.0', vite: '^8.0.0' })
    },
    devDependencies: {
      ...(typescript && { '@types/express': '^5.0.0', '@types/node': '^20.0.0', tsx: '^4.0.0', typescript: '^5.9.0' }),
      ...(typescript && vite && { '@types/react': '^19.0.0', '@types/react-dom': '^19.0.0' })
    }
  }
}

/** Returns versions of library and client, or their files if npm installed this package from a file of `npm pack`. */
function findOwnPackages(target: string): Packages {
  const { version } = JSON.parse(readFileSync(join(ownFolder, 'package.json'), 'utf8')) as { version: string }
  const lock = join(ownFolder, '../.package-lock.json')
  const { packages = {} } = (existsSync(lock) ? JSON.parse(readFileSync(lock, 'utf8')) : {}) as {
    packages?: Record<string, { resolved?: string }>
  }
  const { resolved = '' } = packages['node_modules/express-did-auth'] ?? {}
  const folder = resolve(ownFolder, '../..', dirname(resolved.replace(/^file:/, '')))
  const getVersion = (name: string): string => {
    const file = relative(target, join(folder, `${name}-${version}.tgz`))
    return resolved.startsWith('file:') ? `file:${file.split(sep).join('/')}` : `^${version}`
  }
  const names = ['express-did-auth', 'express-did-auth-client']
  return Object.fromEntries(names.map((name) => [name, getVersion(name)]))
}

function toJson(value: object): string {
  return `${JSON.stringify(value, undefined, 2)}\n`
}
