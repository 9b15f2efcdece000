import { describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorTexts } from 'express-did-auth'
import ts from 'typescript'
import { secretVariables, variableNames } from '../../servers/config/env-schema.js'
import { readEnv, serverPorts } from '../../servers/config/read-env.js'
import { serverErrors } from '../../servers/http/server-error.js'
import { defaults } from '../../src/config/options.js'
import { errorStatuses } from '../../src/error-statuses.js'
import { packageJson, readDocument, root } from '../support/documents.js'
import { tableUnder } from '../support/readme.js'
import { listSourceFiles } from '../support/read-imports.js'

const readme = readDocument('README.md')
const reference = readDocument('src/config/README.md')
const operating = readDocument('servers/README.md')

const inCode = (name: string): string => `\`${name}\``
const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

interface Member {
  isRequired: boolean
  type: string
}

/** The members of an interface, wherever in src it stands. */
function membersOf(interfaceName: string): Record<string, Member> {
  for (const file of listSourceFiles(root, ['src'])) {
    const source = ts.createSourceFile(file, readFileSync(join(root, file), 'utf8'), ts.ScriptTarget.ES2023)
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

describe('the table of options', () => {
  const rows = tableUnder(reference, 'Options')
  const members = membersOf('DidAuthConfig')

  it('names every option once: the required ones, then the others in the order of the configuration', () => {
    const isOptional = (name: string): number => (members[name]!.isRequired ? 0 : 1)
    const names = Object.keys(members).sort((one, other) => isOptional(one) - isOptional(other))
    expect(rows.map(([name]) => name)).toEqual(names.map(inCode))
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

describe('the tables of errors', () => {
  it('tell code, status and text of every error of the library', () => {
    const rows = tableUnder(reference, 'Errors').map(([code, status, text]) => [code, status, text])
    expect(rows).toEqual(
      Object.entries(errorTexts).map(([code, text]) => [
        inCode(code),
        String(errorStatuses[code as keyof typeof errorStatuses]),
        text
      ])
    )
  })

  it('tell the same of those of relay and vault', () => {
    const rows = tableUnder(operating, 'Errors of relay and vault').map(([code, status, text]) => [code, status, text])
    expect(rows).toEqual(
      Object.entries(serverErrors).map(([code, [status, text]]) => [inCode(code), String(status), text])
    )
  })
})

describe('the table of variables', () => {
  const rows = tableUnder(operating, 'Environment variables')
  const shownDefaults = Object.fromEntries(rows.map(([name, shown]) => [name!.slice(1, -1), shown!]))

  it('names every variable of the servers once', () => {
    expect(rows.map(([name]) => name)).toEqual(variableNames.map(inCode))
  })

  it('tells the defaults that the servers have', () => {
    const env = readEnv({}, 'auth', false)
    const bounds = variableNames.filter(
      (name) => /^(?:RELAY|VAULT|DATABASE)_/.test(name) && env[name as keyof typeof env] !== undefined
    )
    expect(bounds.length).toBeGreaterThan(7)
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
    // An option that is a list or an empty text is told in words.
    const ofOptions = variableNames.filter((name) => {
      const value: unknown = (defaults as never)[optionOf(name)]
      return value !== undefined && value !== '' && !Array.isArray(value)
    })
    expect(ofOptions.length).toBeGreaterThan(8)
    const expected = ofOptions.map((name) => [name, inCode(textOf((defaults as never)[optionOf(name)]))])
    expect(ofOptions.map((name) => [name, shownDefaults[name]])).toEqual(expected)
  })

  it.each(secretVariables)('comes with %s from a file, which the servers read', (name) => {
    expect(operating.prose).toContain(`${name}_FILE`)
    const missing = join(root, 'no-such-file')
    expect(() => readEnv({ [`${name}_FILE`]: missing }, 'auth', false)).toThrow(`${name}_FILE`)
  })
})

describe('the tables of servers', () => {
  const scriptOf = (text: string): string => text.slice(1, -1).split(' ').at(-1)!

  it.each([
    ['README.md', tableUnder(readme, 'The servers').map(([, , bin, script]) => [bin, script])],
    ['servers/README.md', tableUnder(operating, 'Running').map(([bin, script]) => [bin, script])]
  ])('of %s start each server by the commands that there are', (_file, rows) => {
    expect(rows.map(([, script]) => script).sort()).toEqual(
      ['npm start', 'npm run auth', 'npm run relay', 'npm run vault'].map(inCode).sort()
    )
    for (const [bin, script] of rows) {
      const command = /^`npx express-did-auth-servers (\w+)`$/.exec(bin!)![1]
      expect(packageJson.scripts[scriptOf(script!)]).toMatch(new RegExp(`^node \\S+\\.js ${command!}$`))
    }
  })
})

describe('the chapter of commands', () => {
  const chapter = operating.prose.split(/^## /m).find((part) => part.startsWith('Commands\n'))!

  it.each(['keys', 'doctor/command', 'conformance/command'])('names the options of %s', (file) => {
    const source = readFileSync(join(root, `servers/commands/${file}.ts`), 'utf8')
    const options = [...source.matchAll(/^ *'?([\w-]+)'?: \{ type: '|[{,] '?([\w-]+)'?: \{ type: '/gm)]
    const names = options.map(([, line, inLine]) => line ?? inLine!)
    expect(names.length).toBeGreaterThan(2)
    const own = names.filter((name) => name !== 'json' && name !== 'origin')
    expect(own.filter((name) => !chapter.includes(inCode(`--${name}`)))).toEqual([])
  })
})

describe('the page for operators', () => {
  it('replaces the old packages of the IPFS client as this project does', () => {
    const [overrides] = operating.blocks.filter(({ language }) => language === 'json')
    const name = 'ipfs-http-client'
    expect(JSON.parse(overrides!.code)).toEqual({ overrides: { [name]: packageJson.overrides[name] } })
  })

  const chapter = operating.prose.split(/^## /m).find((part) => part.startsWith('Monitoring\n'))!
  const sources = ['src', 'servers']
    .flatMap((folder) => listSourceFiles(root, [folder]))
    .map((file) => readFileSync(join(root, file), 'utf8'))
    .join('\n')

  it('names events that are logged, and each that tells of a failure', () => {
    const [, listed = ''] = /Events to watch for:([^]*?)\./.exec(chapter)!
    const events = [...listed.matchAll(/`([\w-]+)`/g)].map(([, name]) => name!)
    const logged = [...sources.matchAll(/(?:\bevent: |\bfailed\(\s*)'([\w-]+)'/g)].map(([, name]) => name!)
    expect(events.filter((name) => !logged.includes(name))).toEqual([])
    const failures = [...new Set(logged)].filter((name) => name.endsWith('-failed'))
    expect(failures.length).toBeGreaterThan(5)
    expect(failures.filter((name) => !events.includes(name))).toEqual([])
  })

  it('names metrics that are served', () => {
    const several = readDocument('servers/INSTANCES.md').prose
    const metrics = [...`${chapter}\n${several}`.matchAll(/`(did_auth_\w+)(?:\{.*?\})?`/g)].map(([, name]) => name!)
    expect(new Set(metrics).size).toBe(6)
    expect(metrics.filter((name) => !new RegExp(`(?:name: '${name}'|^  ${name}: )`, 'm').test(sources))).toEqual([])
  })
})

describe('the table of examples', () => {
  it('links every example that is packed: all but the demo', () => {
    const named = tableUnder(readDocument('examples/README.md'), 'Examples').map(([files]) => files!)
    const linked = named.flatMap((files) => [...files.matchAll(/\]\(([\w.-]+)\)/g)].map(([, file]) => file!))
    const files = readdirSync(join(root, 'examples')).filter((file) => !/^demo|\.(?:md|webp)$/.test(file))
    expect(linked.sort()).toEqual(files.sort())
  })
})
