import { beforeEach, describe, expect, it } from '@jest/globals'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { init } from '../src/init.js'
import { afterTest } from './support/fixtures/after-test.js'
import { filesIn, temporaryFolder } from './support/fixtures/store-folder.js'

let folder: string

beforeEach(() => {
  const { path, remove } = temporaryFolder()
  folder = path
  afterTest(remove)
})

const read = (name: string): string => readFileSync(join(folder, name), 'utf8')
const listFiles = (): string[] =>
  filesIn(folder)
    .map((path) => relative(folder, path))
    .sort()
const readManifest = () => JSON.parse(read('package.json'))

describe('the command `init`', () => {
  it('writes an app with keys of its own, which only its owner can read, and names two commands', () => {
    const printed = init([folder])
    expect(printed.split('\n').slice(1)).toEqual([
      '',
      'Run these two commands:',
      expect.stringMatching(/^ {2}cd .* && npm install$/),
      '  npm start',
      'The login test: npm test',
      ''
    ])
    expect(listFiles()).toEqual([
      ...['.env', '.env.example', '.gitignore', 'README.md', 'app.js', 'env.js', 'login.test.js', 'package.json'],
      ...['public/index.html', 'public/page.css', 'public/page.js', 'server.js', 'store.js']
    ])
    expect(read('.env')).toMatch(
      /^PRIVATE_KEY=[0-9a-f]{64}\nCHALLENGE_SECRET=[0-9a-f]{64}\n(?:# .*\n)+SERVICE_URL=http:/m
    )
    expect(read('.env.example')).toMatch(/^PRIVATE_KEY=\nCHALLENGE_SECRET=\n(?:# .*\n)+SERVICE_URL=http:/m)
    expect(read('README.md')).toContain('cp .env.example .env\n')
    expect(statSync(join(folder, '.env')).mode & 0o777).toBe(0o600)
    expect(read('.gitignore')).toMatch(/^\.env$/m)
    const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
    expect(readManifest()).toMatchObject({
      type: 'module',
      scripts: { start: 'node server.js', test: 'node --test login.test.js' },
      dependencies: { 'express-did-auth': `^${version}`, 'express-did-auth-client': `^${version}` }
    })
    init([join(folder, 'other')])
    expect(read('other/.env')).not.toBe(read('.env'))
  })

  it.each([
    [['--cookies'], { 'app.js': 'useCookies: true', 'public/page.js': "mode: 'cookie'" }],
    [[], { 'public/page.js': 'storage: local()' }],
    [['--typescript'], { 'app.ts': 'setupDidAuth', 'tsconfig.json': '"strict": true' }],
    [['--store', 'sqlite'], { 'store.js': 'sqliteStore(', '.gitignore': 'sessions.db' }],
    [['--store', 'postgres'], { 'store.js': 'postgresStore(', '.env': 'DATABASE_URL=', 'package.json': '"pg"' }],
    [['--vite'], { 'page.jsx': 'createRoot', 'vite.config.js': 'proxy', 'index.html': '/page.jsx' }],
    [['--vite', '--typescript'], { 'page.tsx': 'Promise<unknown>', 'index.html': '/page.tsx' }]
  ])('writes what the options %j ask for, and no mark of a template', (options, parts) => {
    init([folder, ...options])
    for (const [name, part] of Object.entries(parts)) expect(read(name)).toContain(part)
    for (const name of listFiles()) expect(read(name)).not.toMatch(/\/\/ (?:not )?--/)
  })

  it.each([
    [['--cookie'], /^Unknown option '--cookie'\. Usage: npx express-did-auth init .*$/],
    [['--store', 'mongodb'], /^There is no store "mongodb"\. Usage: .*$/],
    [['--store'], /^Option '--store <value>' argument missing\. Usage: .*$/],
    [['another'], /^Name one folder, not .* and another\. Usage: .*$/]
  ])('refuses %j in one line, and writes nothing', (options, message) => {
    expect(() => init([join(folder, 'app'), ...options])).toThrow(message)
    expect(existsSync(join(folder, 'app'))).toBe(false)
  })

  it('names the files that it would overwrite, and writes nothing', () => {
    writeFileSync(join(folder, 'server.js'), 'mine')
    writeFileSync(join(folder, '.gitignore'), 'node_modules/\n')
    const problem = `${folder} already contains .gitignore, server.js; choose another folder.`
    expect(() => init([folder])).toThrow(problem)
    expect(listFiles()).toEqual(['.gitignore', 'server.js'])
    expect(read('server.js')).toBe('mine')
  })

  it('quotes a folder whose name contains a space', () => {
    expect(init([join(folder, 'my app')])).toMatch(/\n {2}cd ".*\/my app" && npm install\n/)
  })

  it('leaves a README.md, a package.json and a .gitignore with .env as they are, and names what to install', () => {
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(folder, '.gitignore'), '.env\n')
    writeFileSync(join(folder, 'README.md'), 'Mine')
    const printed = init([folder])
    expect(printed).toContain('npm install ethers express express-did-auth express-did-auth-client\n')
    expect(printed).toMatch(/\n {2}node server\.js\nThe login test: node --test login\.test\.js\n$/)
    expect(['package.json', '.gitignore', 'README.md'].map(read)).toEqual(['{ "type": "module" }', '.env\n', 'Mine'])
  })

  it('refuses a project of CommonJS', () => {
    mkdirSync(join(folder, 'old'))
    writeFileSync(join(folder, 'old/package.json'), '{}')
    expect(() => init([join(folder, 'old')])).toThrow('run this first: npm pkg set type=module')
    expect(listFiles()).toEqual(['old/package.json'])
  })
})
