import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { errorTexts } from 'express-did-auth'
import ts from 'typescript'
import { readEnv, secretVariables, serverPorts, variableNames } from '../servers/shared/environment/read-env.js'
import { requiredPackages } from '../servers/shared/start/required-packages.js'
import { serverErrors } from '../servers/shared/http/server-error.js'
import { defaults } from '../src/config-options.js'
import { errorStatuses } from '../src/http/send-error.js'
import { listSourceFiles } from './support/read-imports.js'
import { anchorsOf, linksOf, readMarkdown, tableUnder } from './support/readme.js'
import { runExample } from './support/run-example.js'
import { ServerProcesses } from './support/server-process.js'
import { temporaryFolder } from './support/store-folder.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const readme = readMarkdown(join(root, 'README.md'))
const operating = readMarkdown(join(root, 'servers/README.md'))
const documents = ['README.md', 'servers/README.md', 'SECURITY.md', 'CHANGELOG.md']
const packageJson = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>
  exports: Record<string, unknown>
  bin: Record<string, string>
  overrides: Record<string, unknown>
}

const inCode = (name: string): string => `\`${name}\``

interface Member {
  isRequired: boolean
  type: string
}

/** The members of an interface, wherever in src it stands. */
function membersOf(interfaceName: string): Record<string, Member> {
  for (const file of readdirSync(join(root, 'src')).filter((name) => name.endsWith('.ts'))) {
    const source = ts.createSourceFile(file, readFileSync(join(root, 'src', file), 'utf8'), ts.ScriptTarget.ES2023)
    for (const node of source.statements) {
      if (!ts.isInterfaceDeclaration(node) || node.name.text !== interfaceName) continue
      const members = node.members.filter(ts.isPropertySignature)
      return Object.fromEntries(
        members.map((member) => [
          member.name.getText(source),
          {
            isRequired: member.questionToken === undefined,
            type: member.type?.getText(source).replace(/ \| undefined$/, '') ?? ''
          }
        ])
      )
    }
  }
  throw new Error(`no interface ${interfaceName}`)
}

describe("README's table of options", () => {
  const rows = tableUnder(readme, 'Options')
  const members = membersOf('DidAuthConfig')

  it('names every option once, in the order of the configuration', () => {
    expect(rows.map(([name]) => name)).toEqual(Object.keys(members).map(inCode))
  })

  it.each(rows)('tells type and necessity of %s', (name, type, required) => {
    const member = members[name.slice(1, -1)]
    expect(type).toBe(inCode(member!.type))
    expect(required).toBe(member!.isRequired ? 'yes' : 'no')
  })

  it.each(rows)('tells the default of %s', (name, _type, required, shown) => {
    const option = name.slice(1, -1)
    if (required === 'yes') expect(shown).toBe('')
    else if (Object.hasOwn(defaults, option)) expect(shown).toBe(inCode(textOf((defaults as never)[option])))
    // One that depends on something, or is nothing, is told in words.
    else expect(shown).toMatch(/^\w/)
  })
})

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

describe('the table of variables', () => {
  const rows = tableUnder(operating, 'Environment variables')
  const shownDefaults = Object.fromEntries(rows.map(([name, shown]) => [name!.slice(1, -1), shown!]))

  it('names every variable of the servers once', () => {
    expect(rows.map(([name]) => name)).toEqual(variableNames.map(inCode))
  })

  it('tells the defaults that the servers have', () => {
    const env = readEnv({}, 'auth', false)
    const bounds = variableNames.filter((name) => /^(?:RELAY|VAULT)_/.test(name))
    expect(bounds).toHaveLength(10)
    expect(shownDefaults).toMatchObject({
      PORT: Object.values(serverPorts)
        .map((port) => inCode(String(port)))
        .join(', '),
      HOST: inCode(env.HOST),
      DATA_DIR: inCode(env.DATA_DIR),
      LOG_LEVEL: inCode(env.LOG_LEVEL),
      IPFS_ALLOW_INSECURE: inCode(String(env.IPFS_ALLOW_INSECURE)),
      ...Object.fromEntries(bounds.map((name) => [name, inCode(String(env[name as 'RELAY_MAX_FILE_BYTES']))]))
    })
    expect(env).toMatchObject({ TRUSTED_ORIGINS: [], CORS_ORIGINS: [], TRUST_PROXY: false })
  })

  it('tells the defaults that the options have', () => {
    const optionOf = (variable: string): string =>
      variable.toLowerCase().replaceAll(/_(\w)/g, (_match, letter: string) => letter.toUpperCase())
    const ofOptions = variableNames.filter(
      (name) => name !== 'TRUSTED_ORIGINS' && Object.hasOwn(defaults, optionOf(name))
    )
    expect(ofOptions).toHaveLength(9)
    const expected = ofOptions.map((name) => [name, inCode(textOf((defaults as never)[optionOf(name)]))])
    expect(ofOptions.map((name) => [name, shownDefaults[name]])).toEqual(expected)
  })

  it.each(secretVariables)('comes with %s from a file, which the servers read', (name) => {
    expect(operating.prose).toContain(`${name}_FILE`)
    const missing = join(root, 'no-such-file')
    expect(() => readEnv({ [`${name}_FILE`]: missing }, 'auth', false)).toThrow(`${name}_FILE`)
  })
})

describe("README's table of errors", () => {
  it('tells code, status and text of every error', () => {
    const rows = tableUnder(readme, 'Errors').map(([code, status, text]) => [code, status, text])
    expect(rows).toEqual(
      Object.entries(errorTexts).map(([code, text]) => [
        inCode(code),
        String(errorStatuses[code as keyof typeof errorStatuses]),
        text
      ])
    )
  })

  it('tells the same of those of relay and vault', () => {
    const rows = tableUnder(readme, 'Errors of relay and vault').map(([code, status, text]) => [code, status, text])
    expect(rows).toEqual(
      Object.entries(serverErrors).map(([code, [status, text]]) => [inCode(code), String(status), text])
    )
  })
})

describe('the page for operators', () => {
  it('names the packages that the servers need, and what replaces old ones', () => {
    const commands = operating.blocks.map(({ code }) => code.trim())
    expect(commands).toContain(`npm install ${requiredPackages(['auth', 'relay', 'vault'], false).join(' ')}`)
    const [overrides] = operating.blocks.filter(({ language }) => language === 'json')
    const name = 'ipfs-http-client'
    expect(JSON.parse(overrides!.code)).toEqual({ overrides: { [name]: packageJson.overrides[name] } })
  })

  it('starts each server by the commands that there are', () => {
    const rows = tableUnder(operating, 'Start')
    expect(rows.map(([script]) => script)).toEqual(
      ['npm start', 'npm run auth', 'npm run relay', 'npm run vault'].map(inCode)
    )
    for (const [script, bin] of rows) {
      const name = script!.slice(1, -1).split(' ').at(-1)!
      const command = /^`npx express-did-auth (\w+)`$/.exec(bin!)![1]
      expect(packageJson.scripts[name]).toBe(`node dist/servers/cli.js ${command!}`)
      expect(packageJson.scripts[`pre${name}`]).toBe('npm run --silent build')
    }
  })
})

describe.each(documents)('%s', (file) => {
  const document = readMarkdown(join(root, file))

  it('links to files and headings that exist', () => {
    const broken = linksOf(document).filter((target) => {
      if (/^https?:/.test(target)) return false
      const [path = '', anchor] = target.split('#')
      const linked = path === '' ? document : undefined
      const linkedFile = join(root, dirname(file), path)
      if (path !== '' && !existsSync(linkedFile)) return true
      return anchor !== undefined && !anchorsOf(linked ?? readMarkdown(linkedFile)).includes(anchor)
    })
    expect(broken).toEqual([])
  })

  it('names scripts, subpaths and files that exist', () => {
    const scripts = [...document.text.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name!)
    expect(scripts.filter((name) => !(name in packageJson.scripts))).toEqual([])
    const subpaths = [...document.text.matchAll(/express-did-auth(\/[\w/-]+)/g)].map(([, path]) => `.${path!}`)
    expect(subpaths.filter((path) => !(path in packageJson.exports))).toEqual([])
    const files = [...document.text.matchAll(/(?<!\/)\b(?:examples|src|servers|test)\/[\w./-]+\.\w+/g)].map(
      ([path]) => path
    )
    expect(files.filter((path) => !existsSync(join(root, path)))).toEqual([])
  })

  it('names no path of any one machine', () => {
    expect(document.text).not.toMatch(/(?<![\w.:/])\/(?:home|root|Users|tmp|work|opt|var|usr)\//)
  })
})

describe('the chapter on watching servers', () => {
  const chapter = operating.prose.split(/^## /m).find((part) => part.startsWith('Watch\n'))!
  const sources = ['src', 'servers']
    .flatMap((folder) => listSourceFiles(root, [folder]))
    .map((file) => readFileSync(join(root, file), 'utf8'))
    .join('\n')

  it('names events that are logged, and each that tells of a failure', () => {
    const [, listed = ''] = /Events worth a\s+look:([^]*?)\./.exec(chapter)!
    const events = [...listed.matchAll(/`([\w-]+)`/g)].map(([, name]) => name!)
    const logged = [...sources.matchAll(/(?:\bevent: |\bfailed\(\s*)'([\w-]+)'/g)].map(([, name]) => name!)
    expect(events.filter((name) => !logged.includes(name))).toEqual([])
    const failures = [...new Set(logged)].filter((name) => name.endsWith('-failed'))
    expect(failures.length).toBeGreaterThan(5)
    expect(failures.filter((name) => !events.includes(name))).toEqual([])
  })

  it('names metrics that are served', () => {
    const metrics = [...chapter.matchAll(/`(did_auth_\w+)`/g)].map(([, name]) => name!)
    expect(metrics).toHaveLength(2)
    expect(metrics.filter((name) => !sources.includes(`name: '${name}'`))).toEqual([])
  })
})

describe("README's code", () => {
  const folder = join(root, '.cache/readme')
  const typescript = readme.blocks.filter(({ language }) => language === 'ts').map(({ code }) => code)
  const [quickstart, ...fragments] = typescript
  const names = ['setupDidAuth', 'wallet', 'did', 'domain', 'config', 'app', 'requireDid', 'myStore', 'url']
  const stubs = `const describe = (_name: string, cases: () => void): void => cases()
const it = (_name: string, _run: () => Promise<void>): void => undefined
`
  // What has no types of its own is declared beside the code that uses it.
  const declarations = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.d.ts'))
    .map((name) => join(root, 'src', name))
  const files = fragments.map((code, index) => ({ path: join(folder, `fragment-${index}.ts`), code }))

  beforeAll(() => {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    for (const { path, code } of files) {
      const used = names.filter((name) => new RegExp(`\\b${name}\\b`).test(code))
      const given = `import { ${used.join(', ')} } from '../../test/support/readme-names.js'\n`
      writeFileSync(path, `${given}${code.includes('describe(') ? stubs : ''}${code}\nexport {}\n`)
    }
  })

  afterAll(async () => {
    jest.restoreAllMocks()
    const { server } = await import('./support/readme-names.js')
    server.closeAllConnections()
    server.close()
  })

  it('starts with the quickstart, which is examples/quickstart.ts word for word', () => {
    expect(quickstart).toBe(readFileSync(join(root, 'examples/quickstart.ts'), 'utf8'))
  })

  it('has the wallet of examples/wallet.mjs', () => {
    const [wallet] = readme.blocks.filter(({ language }) => language === 'js')
    const withoutComments = readFileSync(join(root, 'examples/wallet.mjs'), 'utf8').replaceAll(/^\/\/.*\n/gm, '')
    expect(wallet!.code).toBe(withoutComments)
  })

  it('compiles under the strict settings of this project', () => {
    const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path)) as {
      config: object
    }
    const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
    const sources = [...files.map(({ path }) => path), ...declarations]
    const program = ts.createProgram(sources, options)
    const faults = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
      return `${file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
    })
    expect(faults).toEqual([])
  }, 60_000)

  it.each(files.map(({ code, path }) => [code.split('\n')[0]!, path]))('runs: %s', async (_line, path) => {
    jest.spyOn(console, 'log').mockImplementation(() => undefined)
    await import(path)
  })
})

describe("README's steps for the shell", () => {
  const steps = readme.blocks.filter(({ language, code }) => language === 'sh' && code.includes('curl'))
  const folder = temporaryFolder()
  const servers = new ServerProcesses({ DATA_DIR: folder.path, LOG_LEVEL: 'silent' })

  afterAll(async () => {
    await servers.killAll()
    folder.remove()
  })

  it('log in, relay a file and keep data at the three servers, word for word but for the ports', async () => {
    const { servers: running } = await servers.start({}, [], 'all')
    const script = running.reduce(
      (text, { server, serviceUrl }) =>
        text.replaceAll(`localhost:${serverPorts[server as keyof typeof serverPorts]}`, new URL(serviceUrl).host),
      steps.map(({ code }) => code).join('\n')
    )
    const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', script], { cwd: root })
    const answers = stdout.replaceAll(/(?<=[}\]])\n?(?=[[{])/g, '\n').split('\n')
    const ofHello = 'bafkreiayl6g3gitr7ys7kyng7sjywlrgimdoymco3jiyab6rozecmoazne'
    const ofBread = 'bafkreihiqikuxmxp3bzvm2a2n3ieqxfvcui5tzq7c4rvv26xqmh35epbya'
    const ofOatMilk = 'bafkreibkd3jfdc6lueyckpsvazthskwzblbgw6neewz5a5mwmbj5xso7rq'
    expect(answers.map((answer) => JSON.parse(answer) as unknown)).toEqual([
      { did: 'did:ethr:rsk:0x1a642f0e3c3af545e7acbd38b07251b3990914f1' },
      { accessToken: expect.any(String), refreshToken: expect.any(String) },
      { url: `relay://${ofHello}`, cid: ofHello },
      { file: 'Hello' },
      { id: ofBread },
      ['Milk', 'Bread'],
      { id: ofOatMilk },
      {
        keys: [
          {
            key: 'notes',
            entries: [
              { id: ofBread, size: 5 },
              { id: ofOatMilk, size: 8 }
            ]
          }
        ]
      },
      { used: 13, available: 67108851, usedEntries: 2, availableEntries: 9998 }
    ])
  }, 60_000)
})

describe('runExample', () => {
  it('says so when nothing listens', async () => {
    await expect(runExample(async () => undefined)).rejects.toThrow('0 servers instead of one')
  })
})
