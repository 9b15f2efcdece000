import { describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as client from 'express-did-auth-client'
import ts from 'typescript'
import { secretVariables, variableNames } from '../../servers/config/env-schema.js'
import {
  readEnv,
  findMisspellings,
  findUnusedVariables,
  serverPorts,
  type ServerName
} from '../../servers/config/read-env.js'
import { serverErrors } from '../../servers/http/server-error.js'
import * as codes from '../../src/client/wire/error-codes.js'
import { packageJson, readDocument, root, tableUnder } from '../support/fixtures/documents.js'
import { listSourceFiles } from '../support/fixtures/read-imports.js'

const readme = readDocument('README.md')
const clientPage = readDocument('src/client/README.md')
const vaultPage = readDocument('servers/vault/README.md')
const operating = readDocument('servers/README.md')
const maintenance = readDocument('servers/MAINTENANCE.md')

const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const quoteCode = (name: string): string => `\`${name}\``

describe('the table of variables', () =>
  it.each(secretVariables)('lists %s with its file, which the servers read', (name) => {
    expect(operating.prose).toContain(`${name}_FILE`)
    const missing = join(root, 'no-such-file')
    expect(() => readEnv({ [`${name}_FILE`]: missing }, 'auth', false)).toThrow(`${name}_FILE`)
  }))

describe('the tables of servers', () => {
  const readScript = (text: string): string => text.slice(1, -1).split(' ').at(-1)!

  it.each([
    ['README.md', tableUnder(readme, 'The servers').map(([, , bin, script]) => [bin, script])],
    ['servers/README.md', tableUnder(operating, 'Running').map(([bin, script]) => [bin, script])]
  ])('start each server in %s by existing commands', (_file, rows) => {
    expect(rows.map(([, script]) => script).sort()).toEqual(
      ['npm start', 'npm run auth', 'npm run relay', 'npm run vault'].map(quoteCode).sort()
    )
    for (const [bin, script] of rows) {
      const command = /^`npx express-did-auth-servers (\w+)`$/.exec(bin!)![1]
      expect(packageJson.scripts[readScript(script!)]).toMatch(new RegExp(`^node \\S+\\.js ${command!}$`))
    }
  })
})

describe('the chapter of commands', () => {
  const chapter = maintenance.prose.split(/^## /m).find((part) => part.startsWith('Commands\n'))!

  it.each(['keys', 'doctor/command'])('names the options of %s', (file) => {
    const source = read(`servers/tools/${file}.ts`)
    const options = [...source.matchAll(/^ *'?([\w-]+)'?: \{ type: '|[{,] '?([\w-]+)'?: \{ type: '/gm)]
    const names = options.map(([, line, inLine]) => line ?? inLine!)
    expect(names.length).toBeGreaterThan(2)
    const own = names.filter((name) => name !== 'json' && name !== 'origin')
    expect(own.filter((name) => !chapter.includes(quoteCode(`--${name}`)))).toEqual([])
  })
})

describe('the operations page', () => {
  const chapter = maintenance.prose.split(/^## /m).find((part) => part.startsWith('Monitoring\n'))!
  const sources = ['src', 'servers']
    .flatMap((folder) => listSourceFiles(root, [folder]))
    .map(read)
    .join('\n')

  it('names logged events, and each event that reports a failure', () => {
    const [, listed = ''] = /Events to watch for:([^]*?)\./.exec(chapter)!
    const events = [...listed.matchAll(/`([\w-]+)`/g)].map(([, name]) => name!)
    const logged = [...sources.matchAll(/(?:\bevent: |\bwarnOnce\(\w+, |\bfailed\(\s*)'([\w-]+)'/g)].map(
      ([, name]) => name!
    )
    expect(events.filter((name) => !logged.includes(name))).toEqual([])
    const failures = [...new Set(logged)].filter((name) => name.endsWith('-failed'))
    expect(failures.length).toBeGreaterThan(5)
    expect(failures.filter((name) => !events.includes(name))).toEqual([])
  })

  it('names exported metrics', () => {
    const several = readDocument('servers/INSTANCES.md').prose
    const metrics = [...several.matchAll(/`(did_auth_\w+)(?:\{.*?\})?`/g)].map(([, name]) => name!)
    expect(new Set(metrics).size).toBe(5)
    expect(metrics.filter((name) => !new RegExp(`(?:name: '${name}'|^  ${name}: )`, 'm').test(sources))).toEqual([])
  })
})

describe('the table of examples', () =>
  it('links every packed example: all except the demo', () => {
    const named = tableUnder(readDocument('examples/README.md'), 'Examples').map(([files]) => files!)
    const linked = named.flatMap((files) => [...files.matchAll(/\]\(([\w.-]+)\)/g)].map(([, file]) => file!))
    const files = readdirSync(join(root, 'examples')).filter(
      (file) => !/^(?:demo|(?:skills|starter)$)|\.(?:md|svg|webp)$/.test(file)
    )
    expect(linked.sort()).toEqual(files.sort())
  }))

describe('the chapter on clients', () => {
  it('lists every option of the client in order', () => {
    const file = join(root, 'src/client/session/options.ts')
    const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2023)
    const options = source.statements
      .filter(ts.isInterfaceDeclaration)
      .find(({ name }) => name.text === 'DidAuthClientOptions')!
      .members.map((member) => member.name!.getText(source))
    const chapter = clientPage.prose.split(/^## /m).find((part) => part.startsWith('Clients\n'))!
    const [, table = ''] = chapter.split('| Option | Meaning |')
    const rows = table.split('\n\n')[0]!.split('\n').slice(2)
    const named = rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name))
    expect(named).toEqual(options)
  })

  it('lists every method of the client', () => {
    const members = Object.getOwnPropertyNames(client.DidAuthClient.prototype).filter((name) => name !== 'constructor')
    for (const name of members) expect(clientPage.prose).toMatch(new RegExp(`\`${name}[\`(]`))
  })

  it('states the user message of every error', () => {
    for (const [code, text] of Object.values(codes)) {
      // No action restores a removed file.
      if (code === 'TAKEN_DOWN') continue
      expect(text).toMatch(
        /^[A-Z][^.]+[.] (?:.*(?:[Tt]ry again|it again)|Ask|Check|Choose|Contact|Delete|Install|Load|Log in|Send|Use).*[.]$/
      )
    }
  })
})

describe('the vault page', () => {
  it('lists the routes of the code', () => {
    const code = read('servers/vault/app.ts')
    const routes = [...code.matchAll(/router\.(get|post|put|delete)\('([^']+)'/g)]
    const expectedRoutes = routes.map(([, verb = '', path = '']) => `${verb.toUpperCase()} \`${path}\``)
    const inPage = tableUnder(vaultPage, 'Routes').map(([verb = '', path = '']) => `${verb} ${path}`)
    expect(inPage.filter((route) => !route.includes('/health')).sort()).toEqual(expectedRoutes.sort())
  })

  it('shows the default values of the variables', () => {
    const env = readEnv({}, 'vault', false)
    expect([env.VAULT_MAX_CONTENT_BYTES, env.VAULT_MAX_BYTES_PER_DID, env.VAULT_MAX_ENTRIES_PER_DID]).toEqual([
      1_048_576, 67_108_864, 10_000
    ])
    const bounds = tableUnder(vaultPage, 'Limits').map(([, bound]) => bound)
    expect(bounds.slice(0, 3)).toEqual(['1 MiB', '64 MiB', '10,000'])
  })

  it('lists only statuses of existing errors', () => {
    const known = new Set<string>([...Object.values(serverErrors).map(([status]) => String(status)), '401', '429'])
    expect(tableUnder(vaultPage, 'Errors').filter(([status = '']) => !known.has(status))).toEqual([])
  })
})

const names = Object.keys(serverPorts) as ServerName[]
const pages = ['servers/DEPLOY.md', 'servers/docker/README.md'].map(readDocument)
const blocks = pages.flatMap((page) => page.blocks)
const blockWith = (part: string): string => blocks.find(({ code }) => code.includes(part))!.code

describe('the configuration blocks for operators', () => {
  it('have an environment that every server accepts', () => {
    const lines = blockWith('AUTH_SERVICE_URL').trim().split('\n')
    const env = Object.fromEntries(lines.map((line) => line.split('=') as [string, string]))
    const read = names.map((name) => readEnv(env, name, true))
    expect(read.map(({ SERVICE_URL }) => SERVICE_URL)).toEqual(names.map((name) => `https://${name}.example.com`))
    expect(read.map(({ TRUST_PROXY, PAGE }) => [TRUST_PROXY, PAGE])).toEqual(names.map(() => [1, false]))
    expect([...findUnusedVariables(env, names, true), ...findMisspellings(env)]).toEqual([])
  })

  it('name existing variables', () => {
    const all = pages.map(({ text }) => text).join('\n')
    const named = [...all.matchAll(/\b((?:[A-Z]+_)+[A-Z]+)\b/g)].map(([, name]) => name!)
    const bare = named.map((name) => name.replace(/^(?:AUTH|RELAY|VAULT)_(?=SERVICE_URL)|_FILE$/, ''))
    expect(bare.length).toBeGreaterThan(10)
    expect(bare.filter((name) => !variableNames.includes(name) && !/^(?:AF_|METH_|NODE_ENV)/.test(name))).toEqual([])
  })

  /** Pattern of a configuration block for each server: a site of Caddy or nginx, or a backend of HAProxy. */
  const sites: Readonly<Record<string, RegExp>> = {
    caddy: /^(\w+)\.example\.com \{\n([^]*?)^\}/gm,
    nginx: /^ {2}server_name (\w+)\.example\.com;\n([^]*?)^\}/gm,
    haproxy: /^backend (\w+)\n((?: .*\n)+)/gm
  }
  it.each(Object.entries(sites))('route each host to the port of its server: %s', (proxy, site) => {
    const text = blocks.map(({ language, code }) => (language === proxy ? code : '')).join('\n')
    const found = [...text.matchAll(site)].flatMap(([, name = '', body = '']) =>
      [...body.matchAll(/\d+(?:\.\d+){3}:(\d+)/g)].map(([, port]) => [name, Number(port)] as const)
    )
    const shown = proxy === 'nginx' ? { relay: serverPorts.relay } : serverPorts
    expect(Object.fromEntries(found)).toEqual(shown)
    for (const [name, port] of found) expect(port).toBe(serverPorts[name as ServerName])
  })

  it('forward the client address, check /ready, and give each host its backend', () => {
    const haproxy = blockWith('frontend https')
    const used = [...haproxy.matchAll(/use_backend (\w+) if \{ hdr\(host\) -i (\w+)\.example\.com \}/g)]
    expect(used.map(([, backend, host]) => [backend, host])).toEqual(names.map((name) => [name, name]))
    expect(haproxy).toMatch(
      /^ {2}option forwardfor\n[^]*^ {2}option httpchk GET \/ready\n {2}http-check expect status 200\n/m
    )
    expect(blockWith('proxy_pass')).toContain('proxy_set_header X-Forwarded-For $remote_addr;')
    expect(blockWith('lb_policy')).toContain('health_uri /ready')
  })

  it('hide /ready from outside, for GET only, because a key of the vault may have this name', () => {
    const caddy = blockWith('(public) {')
    expect(caddy).toContain(
      "@ready expression method('GET', 'HEAD') && path('/ready', '/ready/')\n\trespond @ready 404\n"
    )
    const bodies = [caddy, blockWith('lb_policy')].flatMap((code) => [...code.matchAll(sites.caddy!)])
    expect(bodies.map(([, , body]) => body!.split('\n')[0])).toEqual(Array(4).fill('\timport public'))
    expect(blockWith('proxy_pass')).toContain('if ($probe ~* "^(GET|HEAD) /ready/?$") { return 404; }')
    const balancer = readFileSync(join(root, 'servers/docker/haproxy.cfg'), 'utf8')
    for (const text of [blockWith('frontend https'), balancer]) {
      const rules = text.match(/^ {2}http-request return status 404 if METH_GET \{ path -i \/ready \/ready\/ \}/gm)
      expect(rules).toHaveLength(text.match(/^frontend /gm)!.length)
    }
  })
})
