import { afterEach, describe, expect, it } from '@jest/globals'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { serverPorts } from '../../../servers/config/read-env.js'
import { closeServices, serving } from '../../support/servers/server-client.js'
import { root } from '../../support/engines/packed-package.js'

const folder = join(root, 'servers/docker')
/** Reads the lines of a file, without comments and empty lines. */
const readLines = (name: string): string[] =>
  readFileSync(join(folder, name), 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.trim().startsWith('#'))

/** Finds the block below a line of YAML, and returns its lines with one level of indentation removed. */
function findBlock(lines: readonly string[], head: string): string[] {
  const start = lines.indexOf(head)
  if (start < 0) throw new Error(`no line "${head}"`)
  const following = lines.slice(start + 1)
  const end = following.findIndex((line) => !line.startsWith('  '))
  return following.slice(0, end < 0 ? following.length : end).map((line) => line.slice(2))
}

const compose = readLines('compose.yaml')
const services = findBlock(compose, 'services:')
const serverDefaults = findBlock(compose, 'x-server: &server')
const servers = ['auth', 'relay', 'vault'] as const
const dockerfile = readLines('Dockerfile')

describe('compose.instances.yaml', () =>
  it("gives the servers a role without superuser rights, and removes the superuser's password", () => {
    const lines = readLines('compose.instances.yaml')
    expect(lines.filter((line) => line.includes('POSTGRES_USER'))).toEqual([])
    expect(findBlock(findBlock(findBlock(lines, 'configs:'), 'role:'), 'content: |')).toEqual([
      '\\set password `echo "$$POSTGRES_PASSWORD"`',
      "CREATE ROLE did_auth LOGIN PASSWORD :'password';",
      'CREATE DATABASE did_auth OWNER did_auth;',
      'ALTER ROLE postgres PASSWORD NULL;'
    ])
  }))

describe('compose.yaml', () => {
  it('defines the three servers and an IPFS node of a fixed version', () => {
    const names = services.filter((line) => /^\w/.test(line))
    expect(names).toEqual(['auth:', 'relay:', 'vault:', 'kubo:'])
    expect(findBlock(services, 'kubo:')[0]).toMatch(/^image: ipfs\/kubo:v\d+\.\d+\.\d+$/)
  })

  it.each(servers)('starts %s with its own command, and publishes it only on this machine', (name) => {
    const service = findBlock(services, `${name}:`)
    const port = serverPorts[name]
    expect(service.slice(0, 1)).toEqual(['<<: *server'])
    expect(service).toContain(`command: [${name}]`)
    expect(findBlock(service, 'environment:')).toContain(`PORT: '${port}'`)
    expect(findBlock(service, 'ports:')).toEqual([`- 127.0.0.1:${port}:${port}`])
  })

  it('gives the servers minimal rights, and 15 s to stop', () => {
    expect(serverDefaults).toEqual(expect.arrayContaining(['init: true', 'read_only: true', 'stop_grace_period: 15s']))
    expect(findBlock(serverDefaults, 'cap_drop:')).toEqual(['- ALL'])
    expect(findBlock(serverDefaults, 'security_opt:')).toEqual(['- no-new-privileges:true'])
  })

  it('exposes the RPC port of the node only to relay and vault, on an internal network', () => {
    const published = compose.filter((line) => /^ *- .*\d+:\d+/.test(line))
    expect(published).toHaveLength(servers.length)
    expect(findBlock(findBlock(compose, 'networks:'), 'ipfs-rpc:')).toEqual(['internal: true'])
    const isOnNetwork = (name: string): boolean =>
      findBlock(findBlock(services, name), 'networks:').includes('- ipfs-rpc')
    expect(['auth:', 'relay:', 'vault:', 'kubo:'].filter(isOnNetwork)).toEqual(['relay:', 'vault:', 'kubo:'])
    expect(findBlock(services, 'kubo:')).not.toContain('ports:')
    expect(findBlock(compose, 'x-ipfs: &ipfs')).toEqual([
      'IPFS_API_URL: ${IPFS_API_URL-http://kubo:5001}',
      "IPFS_ALLOW_INSECURE: 'true'"
    ])
    for (const name of ['relay:', 'vault:']) {
      expect(findBlock(findBlock(services, name), 'environment:')).toContain('<<: [*environment, *ipfs]')
    }
  })

  it('limits the IPFS node to the capabilities of its entry point, with restarts and a health check', () => {
    const kubo = findBlock(services, 'kubo:')
    expect(findBlock(kubo, 'cap_drop:')).toEqual(['- ALL'])
    expect(findBlock(kubo, 'cap_add:')).toEqual(['- CHOWN', '- SETGID', '- SETUID'])
    expect(findBlock(kubo, 'security_opt:')).toEqual(['- no-new-privileges:true'])
    expect(kubo).toContain('restart: unless-stopped')
    expect(findBlock(kubo, 'healthcheck:')[0]).toMatch(/^test: \[CMD, ipfs, /)
  })
})

describe('check-health.mjs', () => {
  const clients: Socket[] = []
  afterEach(() => {
    closeServices()
    for (const client of clients.splice(0)) client.destroy()
  })

  /** Starts a server that answers `/ready` with this status or stays silent, and returns its port. */
  const startServer = async (status: number | 'silent'): Promise<string> => {
    const url = await serving((req, res) => {
      if (status !== 'silent') res.writeHead(req.url === '/ready' ? status : 404).end()
    })
    return new URL(url).port
  }

  /** Reserves a port that refuses connections: a client's connection occupies it, so no server can get it. */
  const reserveClosedPort = async (): Promise<string> => {
    const client = connect(Number(await startServer('silent')), '127.0.0.1')
    clients.push(client)
    await once(client, 'connect')
    return String(client.localPort)
  }

  const runCheck = async (env: Record<string, string>): Promise<number | null> => {
    const child = spawn(process.execPath, [join(folder, 'check-health.mjs')], { env })
    const [code] = (await once(child, 'exit')) as [number | null]
    return code
  }

  /** Exit codes for servers that answer `/ready` with a status, stay silent, or refuse connections. */
  it.each<[what: string, code: number, servers: Record<string, number | 'silent' | 'closed'>]>([
    ['a server at PORT that is ready', 0, { PORT: 200 }],
    ['a server at PORT that is not ready', 1, { PORT: 503 }],
    ['no server', 1, {}],
    [
      'the three servers on a platform that has set PORT',
      0,
      { PORT: 'closed', AUTH_PORT: 200, RELAY_PORT: 200, VAULT_PORT: 200 }
    ],
    ['only auth', 0, { AUTH_PORT: 200 }],
    ['only the relay', 0, { RELAY_PORT: 200 }],
    ['only the vault', 0, { VAULT_PORT: 200 }],
    ['three servers of which auth is not ready', 1, { AUTH_PORT: 503, RELAY_PORT: 200, VAULT_PORT: 200 }],
    ['three servers of which the relay is not ready', 1, { AUTH_PORT: 200, RELAY_PORT: 503, VAULT_PORT: 200 }],
    ['three servers of which the vault is not ready', 1, { AUTH_PORT: 200, RELAY_PORT: 200, VAULT_PORT: 503 }],
    ['three servers of which one is silent', 1, { AUTH_PORT: 200, RELAY_PORT: 200, VAULT_PORT: 'silent' }]
  ])('checks %s, and exits with code %d', async (_what, code, servers) => {
    const closedPorts = { AUTH_PORT: 'closed', RELAY_PORT: 'closed', VAULT_PORT: 'closed' } as const
    const env: Record<string, string> = {}
    for (const [name, status] of Object.entries({ ...closedPorts, ...servers })) {
      env[name] = status === 'closed' ? await reserveClosedPort() : await startServer(status)
    }
    expect(await runCheck(env)).toBe(code)
  })

  it('checks the default ports of the servers if no variable names one', () => {
    const script = readFileSync(join(folder, 'check-health.mjs'), 'utf8')
    const ports = [...script.matchAll(/([A-Z]+)_PORT \|\| (\d+)/g)].map(([, name, port]) => [
      name!.toLowerCase(),
      Number(port)
    ])
    expect(Object.fromEntries(ports)).toEqual(serverPorts)
  })
})

describe('Dockerfile', () => {
  it('compiles in one stage and runs in another, with the same Debian and Node versions', () => {
    const stages = dockerfile.filter((line) => line.startsWith('FROM '))
    expect(stages).toEqual(['FROM node:22-bookworm-slim AS build', 'FROM node:22-bookworm-slim'])
  })

  it('contains no packages of the build or of tests, and no SQLite other than that of Node', () => {
    const run = dockerfile.join('\n').replaceAll(/ \\\n\s+/g, ' ')
    expect(run).toContain(
      [
        'RUN npm run build',
        'npm pkg delete peerDependencies.better-sqlite3',
        'npm pkg delete --workspace servers optionalDependencies.better-sqlite3',
        'rm -r .config',
        'npm prune --omit=dev',
        'find'
      ].join(' && ')
    )
    // `npm prune` keeps a package if any other list than devDependencies contains it.
    const findReasons = (name: string): string[] =>
      ['package.json', 'servers/package.json'].flatMap((file) =>
        Object.entries(JSON.parse(readFileSync(join(root, file), 'utf8')) as Record<string, object>)
          .filter(([kind, packages]) => /(?:^d|D)ependencies$/.test(kind) && Object.hasOwn(packages, name))
          .map(([kind]) => `${file} ${kind}`)
      )
    // The build bundles ipfs-http-client.
    expect(findReasons('ipfs-http-client')).toEqual(['package.json devDependencies'])
    expect(findReasons('better-sqlite3').sort()).toEqual([
      'package.json peerDependencies',
      'servers/package.json optionalDependencies'
    ])
  })

  it('runs as node, stores data in its own volume, listens on every address, and reports its health', () => {
    const last = dockerfile.slice(dockerfile.lastIndexOf('FROM node:22-bookworm-slim'))
    expect(last).toContain('ENV NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/data')
    expect(last).toContain('RUN install --directory --owner=node --group=node --mode=0700 /data')
    expect(last.indexOf('USER node')).toBeGreaterThan(last.findLastIndex((line) => line.startsWith('RUN ')))
    expect(last).toContain('VOLUME /data')
    expect(
      last.some((line) => line.startsWith('HEALTHCHECK ') && line.endsWith('CMD ["node", "check-health.mjs"]'))
    ).toBe(true)
    expect(last.slice(-2)).toEqual(['ENTRYPOINT ["node", "servers/dist/bin.js"]', 'CMD ["all"]'])
  })

  it('copies only files that exist, and none that its ignore file excludes', () => {
    const copied = dockerfile
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
      .flatMap((line) => line.split(' ').slice(1, -1))
    expect(copied.filter((path) => !existsSync(join(root, path)))).toEqual([])
    const [firstPattern, ...patterns] = readLines('Dockerfile.dockerignore')
    expect(firstPattern).toBe('*')
    const allowed = patterns.filter((line) => line.startsWith('!'))
    expect(patterns.filter((line) => !line.startsWith('!'))).toEqual([
      'servers/dist',
      'src/client/dist',
      'servers/node_modules',
      '**/.env*'
    ])
    const isAllowed = (path: string): boolean =>
      allowed.some((pattern) => `${path}/`.startsWith(`${pattern.slice(1)}/`))
    expect(copied.filter((path) => !isAllowed(path))).toEqual([])
    expect(allowed).toHaveLength(7)
  })
})
