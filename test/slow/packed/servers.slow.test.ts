import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startIpfsRpcServer } from '../../support/engines/ipfs-rpc-server.js'
import { packAll, root, runIn, type PackedPackage } from '../../support/engines/packed-package.js'
import { askUntilReady } from '../../support/servers/server-client.js'
import { until } from '../../support/fixtures/until.js'
import { createLoginText, createNumberedWallet } from '../../support/fixtures/fixtures.js'

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
/** Whether Node includes SQLite, which it does from 22.13 on. */
const hasSqlite = major > 22 || (major === 22 && minor >= 13)

describe('the packed express-did-auth-servers', () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'did-auth-servers-')))
  const project = join(folder, 'project')
  const nodes = join(folder, 'nodes')
  const resolveBin = (name: string): string => join(project, 'node_modules/.bin', name)
  const resolveNode = (name: string): string => join(nodes, 'node_modules', name, 'bin/node')
  let packed: PackedPackage = { tarball: '', files: [] }
  const running: ChildProcess[] = []
  const exits: Promise<unknown>[] = []

  beforeAll(async () => {
    for (const name of ['project', 'nodes']) mkdirSync(join(folder, name))
    const { library, servers } = await packAll()
    packed = servers
    for (const inside of [project, nodes]) writeFileSync(join(inside, 'package.json'), '{ "private": true }\n')
    // Install scripts, which would compile packages, do not run.
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error']
    const platform = `${process.platform}-${process.arch}`
    const versions = ['18', '22', '24'].map((version) => `n${version}@npm:node-${platform}@${version}`)
    try {
      await runIn(project, 'npm', 'install', ...options, library.tarball, servers.tarball)
      await runIn(nodes, 'npm', 'install', ...options, ...versions)
    } catch (cause) {
      throw new Error('npm cannot install packages here: this test needs the registry', { cause })
    }
    if (hasSqlite) return
    // Older versions use better-sqlite3, whose install script ran only in this checkout.
    const build = 'node_modules/better-sqlite3/build'
    cpSync(join(root, build), join(project, build), { recursive: true })
  })

  afterAll(async () => {
    // The whole process group ends, including the processes that npx started.
    for (const { pid, exitCode } of running) if (pid !== undefined && exitCode === null) process.kill(-pid, 'SIGKILL')
    await Promise.all(exits)
    rmSync(folder, { recursive: true, force: true })
  })

  /** Starts a server, waits until it is ready, and returns its URL. */
  async function startServer(
    command: string,
    args: readonly string[],
    variables: Record<string, string> = {}
  ): Promise<string> {
    const env = { PATH: process.env.PATH, PORT: '0', DATA_DIR: mkdtempSync(join(folder, 'data-')), ...variables }
    const child = spawn(command, args, { cwd: project, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    running.push(child)
    exits.push(once(child, 'exit'))
    let output = ''
    return new Promise<string>((resolve, reject) => {
      const onData = (chunk: Buffer): void => {
        output += chunk.toString()
        const readyUrl = /"event":"ready".*?"url":"([^"]+)"/.exec(output)?.[1]
        if (readyUrl !== undefined) resolve(readyUrl)
      }
      child.stdout.on('data', onData)
      child.stderr.on('data', onData)
      child.once('exit', (code) =>
        reject(new Error(`${command} ${args.join(' ')} ended with ${String(code)}\n${output}`))
      )
    })
  }

  /** Starts a server, and returns the status that `/ready` answers once the server is ready. */
  async function readReadyStatus(command: string, args: readonly string[]): Promise<number> {
    return (await askUntilReady(await startServer(command, args))).status
  }

  /** Runs a command until it exits, and returns its exit code and output. */
  async function runBin(node: string, name: string, ...args: string[]): Promise<(number | string | null)[]> {
    const child = spawn(node, [resolveBin(name), ...args], { cwd: project, env: { PATH: process.env.PATH } })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const [code] = (await once(child, 'close')) as [number | null]
    return [code, output]
  }

  it.each(['auth', 'relay', 'vault'])(
    'runs npx express-did-auth-servers %s without further packages',
    async (name) => {
      expect(await readReadyStatus('npx', ['--no', 'express-did-auth-servers', name])).toBe(200)
    },
    120_000
  )

  it("stores content on an IPFS node without further packages, and includes its client's licences", async () => {
    const isInstalled = existsSync(join(project, 'node_modules/ipfs-http-client'))
    expect([isInstalled, packed.files.includes('THIRD-PARTY-LICENSES')]).toEqual([false, true])
    const node = await startIpfsRpcServer()
    try {
      const variables = { IPFS_API_URL: node.url, SERVICE_URL: 'https://vault.example' }
      const url = await startServer(process.execPath, [resolveBin('express-did-auth-servers'), 'vault'], variables)
      expect(JSON.parse((await askUntilReady(url)).text)).toMatchObject({ dependencies: { ipfs: 'ok' } })
      const wallet = createNumberedWallet(1)
      const post = async (path: string, body: object, headers: Record<string, string> = {}): Promise<Response> =>
        fetch(`${url}${path}`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', ...headers },
          body: JSON.stringify(body)
        })
      const { challenge } = (await (await post('/request-auth', { did: wallet.did })).json()) as { challenge: string }
      const sig = wallet.personalSign(createLoginText('vault.example', challenge))
      const { accessToken } = (await (await post('/auth', { did: wallet.did, sig })).json()) as { accessToken: string }
      const written = await post('/notes', { content: 'Milk' }, { Authorization: `DIDAuth ${accessToken}` })
      const { id } = (await written.json()) as { id: string }
      await until(async () => (await node.pins()).includes(id))
    } finally {
      await node.stop()
    }
  }, 120_000)

  // Relay and vault use the same SQLite, and join once their storage uses that of Node.
  it.each(['n22', 'n24'])(
    'runs the auth server on %s without compiled packages',
    async (node) => {
      rmSync(join(project, 'node_modules/better-sqlite3'), { recursive: true })
      try {
        expect(await readReadyStatus(resolveNode(node), [resolveBin('express-did-auth-servers'), 'auth'])).toBe(200)
      } finally {
        cpSync(join(root, 'node_modules/better-sqlite3'), join(project, 'node_modules/better-sqlite3'), {
          recursive: true
        })
      }
    },
    120_000
  )

  it('is started by the bin of the library', async () => {
    expect(await readReadyStatus(process.execPath, [resolveBin('express-did-auth'), 'auth'])).toBe(200)
  })

  it.each(['express-did-auth', 'express-did-auth-servers'])('prints the version of %s', async (name) => {
    expect(await runBin(process.execPath, name, '--version')).toEqual([0, `${version}\n`])
  })

  it.each(['express-did-auth', 'express-did-auth-servers'])(
    'names the Node version that %s needs on Node 18',
    async (name) => {
      const sentence = new RegExp(`^${name} needs Node 20\\.19 or newer; this is Node 18\\.[\\d.]+\\.\\n$`)
      expect(await runBin(resolveNode('n18'), name, 'auth')).toEqual([1, expect.stringMatching(sentence)])
    }
  )

  it('is named by the bin of the library if it is not installed, with the command that runs it', async () => {
    const inside = join(folder, 'alone')
    mkdirSync(inside)
    cpSync(join(project, 'node_modules/express-did-auth'), inside, { recursive: true })
    const child = spawn(process.execPath, [join(inside, 'dist/bin.js'), 'relay'], { cwd: inside })
    let output = ''
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const [code] = (await once(child, 'close')) as [number | null]
    const line = 'The servers are in the package express-did-auth-servers. Run: npx express-did-auth-servers relay\n'
    expect([code, output]).toEqual([1, line])
  })
})
