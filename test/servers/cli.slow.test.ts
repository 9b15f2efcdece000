import { afterEach, describe, expect, it } from '@jest/globals'
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { runCli, ServerProcesses, spawnCli, type Ended, type ReadyServer } from '../support/servers/server-process.js'
import { ask, logIn, post, signedLogin } from '../support/servers/server-client.js'
import { scriptFile } from '../support/servers/run-script.js'
import { until } from '../support/fixtures/until.js'
import { getDatabase, fillVault, testVault } from '../support/servers/vault-app.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

describe('the command express-did-auth', () => {
  const servers = new ServerProcesses()

  afterEach(() => servers.killAll())

  /** Expects one sentence on standard error, exit code 1, and nothing else. */
  const expectSentence = ({ code, stdout, stderr }: Ended, sentence: string): void =>
    expect({ code, stdout, stderr }).toEqual({ code: 1, stdout: '', stderr: `${sentence}\n` })

  it('prints the usage with --help, and only the lines of one command after that command', async () => {
    const readCommands = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCli(args)
      expect([code, stderr]).toEqual([0, ''])
      // The usage names the command that started this process, which is node and not npx.
      expect(stdout).toMatch(/^usage: node \S+ <command>\n/)
      return [...stdout.matchAll(/^ {2}(\w+)/gm)].map(([, command]) => command!)
    }
    const allCommands = [
      'auth',
      'relay',
      'vault',
      'all',
      'vault',
      'vault',
      'relay',
      'migrate',
      'copy',
      'backup',
      'restore',
      'keys',
      'doctor'
    ]
    expect(await readCommands('--help')).toEqual(allCommands)
    expect(await readCommands('-h')).toEqual(allCommands)
    for (const command of new Set(allCommands)) {
      expect(await readCommands(command, '--help')).toEqual(allCommands.filter((listed) => listed === command))
    }
  })

  it('doctor reads the same .env as the servers, and prints hints that run as they are', async () => {
    const keys = await runCli(['keys', 'new'])
    writeFileSync(join(servers.folder, '.env'), `${keys.stdout}SERVICE_ULR=x\nRELAY_FILE_TTL_SECONDS=x\n`)
    const env = {
      DATA_DIR: servers.folder,
      RELAY_FILE_TTL_SECONDS: '60',
      CHALLENGE_SECRET: 'my very long challenge secret of the company'
    }
    const { child, ended } = spawnCli(['doctor', '--server', 'relay'], env, [], servers.folder)
    expect(child.pid).toBeDefined()
    const { code, stdout } = await ended
    const hint = /`(node .*) keys new` creates one/.exec(stdout)?.[1]
    expect([code, stdout]).toEqual([1, expect.stringContaining('SERVICE_ULR is not a variable of the servers')])
    expect(stdout).not.toContain('RELAY_FILE_TTL_SECONDS')
    expect(resolve(servers.folder, hint!.slice('node '.length))).toBe(scriptFile('servers/cli.ts'))
  })

  it('keys new creates the identity of a server, in which doctor finds no fault', async () => {
    const file = join(servers.folder, 'identity.env')
    const { code, stdout, stderr } = await runCli(['keys', 'new', '--out', file])
    expect([code, stdout, stderr]).toEqual([0, expect.stringMatching(/^Wrote PRIVATE_KEY, .* of did:/), ''])
    const text = readFileSync(file, 'utf8')
    const env = { ...parseEnv(text), DATA_DIR: servers.folder, RPC_URL_FILE: '' } as Record<string, string>
    const examined = await runCli(['doctor', '--json', '--server', 'relay'], env)
    expect([examined.code, examined.stdout]).toEqual([0, '{"findings":[]}\n'])
    const server = await servers.start(env)
    expect(text).toContain(`derived from it: ${server.serviceDid}\n`)
    const checked = await runCli(['doctor', server.url, '--json'])
    expect([checked.code, checked.stdout]).toEqual([0, '{"findings":[]}\n'])
  })

  it('answers an invalid argument with one sentence and the usage, and exits with 2', async () => {
    for (const args of [
      ['keys'],
      ['keys', 'old'],
      ['doctor', '--colour'],
      ['doctor', 'localhost'],
      ['vault', 'takedown', 'no-cid']
    ]) {
      const { code, stdout, stderr } = await runCli(args)
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).toMatch(/^\S[^\n]+\n\nusage: /)
    }
  })

  it('exits with 2 for an unknown command and without a command', async () => {
    const invalidCommands = [['relax'], ['constructor'], [], ['auth', 'relay'], ['vault', 'reconsider']]
    const runs = await Promise.all(invalidCommands.map((args) => runCli(args)))
    for (const { code, stdout, stderr } of runs) {
      expect([code, stdout, stderr]).toEqual([2, '', expect.stringMatching(/^[^\n]+\n\nusage: /)])
    }
  })

  it('vault reconcile reports a damaged database, and not a server that cannot start', async () => {
    const vault = await testVault({}, { folder: join(servers.folder, 'vault') })
    await fillVault(vault, createNumberedWallet(1).did, [['key', 'content']])
    await vault.close()
    const file = getDatabase(vault)
    // The first page, which defines the tables, remains. All rows are overwritten.
    writeFileSync(file, readFileSync(file).fill(0xaa, 4_096))
    expectSentence(
      await runCli(['vault', 'reconcile'], { DATA_DIR: servers.folder }),
      `Cannot use ${file} (DATA_DIR): the file is damaged`
    )
  })

  it('names every invalid variable in one message', async () => {
    const PRIVATE_KEY = 'ab'.repeat(33)
    const { code, stdout, stderr } = await runCli(['auth'], { PORT: 'x', PRIVATE_KEY, RPC_URL: 'node/customer-key' })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr.split('\n')).toEqual([
      'Invalid environment variables:',
      '  - PORT: received "x"; give a port, 0 to 65535',
      '  - PRIVATE_KEY: received (not shown); give a private key of secp256k1, 64 hex digits',
      '  - RPC_URL: received (not shown); give an http(s) URL',
      ''
    ])
    const allRun = await runCli(['all'], { AUTH_PORT: '0', RELAY_PORT: 'y', VAULT_PORT: 'z', HOST: '' })
    expect(allRun).toMatchObject({ code: 1, stdout: '' })
    expect(allRun.stderr.split('\n').slice(1)).toEqual([
      '  - RELAY_PORT: received "y"; give a port, 0 to 65535',
      '  - VAULT_PORT: received "z"; give a port, 0 to 65535',
      ''
    ])
  })

  // Importing them takes as long as importing the library. Without them, a process fails at the first use.
  it('starts all servers without did-jwt and did-jwt-vc, which load with the first token of each kind', async () => {
    const readLoginStatuses = async (missing: string): Promise<number[]> => {
      const { servers: started, signal, ended } = await servers.start({ TEST_MISSING: missing }, [], 'all')
      const [auth, relay] = started as [ReadyServer, ReadyServer]
      const statuses = []
      for (const { url, serviceUrl } of [auth, relay]) {
        const login = await signedLogin(url, createNumberedWallet(1), new URL(serviceUrl).host)
        statuses.push((await post(`${url}/auth`, login)).status)
      }
      signal('SIGKILL')
      await ended
      return statuses
    }
    expect(await readLoginStatuses('did-jwt')).toEqual([500, 500])
    expect(await readLoginStatuses('did-jwt-vc')).toEqual([200, 500])
    expect(await readLoginStatuses('')).toEqual([200, 200])
  })

  it('reports that the port is in use', async () => {
    const occupant = createServer()
    await new Promise<void>((resolve) => occupant.listen(0, '127.0.0.1', resolve))
    const address = occupant.address()
    const PORT = typeof address === 'object' ? String(address?.port) : ''
    const reason = 'the port is in use'
    const env = { DATA_DIR: servers.folder }
    expectSentence(
      await runCli(['auth'], { ...env, PORT }),
      `Cannot listen on 127.0.0.1:${PORT} (HOST, PORT): ${reason}`
    )
    expectSentence(
      await runCli(['auth'], { ...env, PORT: '0', METRICS_PORT: PORT }),
      `Cannot listen on 127.0.0.1:${PORT} (METRICS_HOST, METRICS_PORT): ${reason}`
    )
    occupant.close()
  })

  it('reports that the database file is no SQLite database', async () => {
    mkdirSync(`${servers.folder}/auth`)
    const file = `${servers.folder}/auth/auth.db`
    writeFileSync(file, 'words '.repeat(1000))
    const sentence = `Cannot use ${file} (DATA_DIR): the file is not an SQLite database`
    expectSentence(await runCli(['auth'], { PORT: '0', DATA_DIR: servers.folder }), sentence)
  })

  it('all warns about a variable that it ignores, and serves the metrics of all servers on one port', async () => {
    const server = await servers.start({ PORT: '1', METRICS_PORT: '0', PAGE: 'false' }, [], 'all')
    const lines = server.output().trim().split('\n')
    const events = lines.map((line) => JSON.parse(line) as Record<string, string>)
    expect(events.map(({ event }) => event)).toEqual(['configuration', 'metrics', 'ready', 'ready', 'ready'])
    expect(events[0]).toMatchObject({ level: 'warn', variable: 'PORT' })
    for (const { url } of server.servers) expect((await ask(`${url}/health`)).status).toBe(200)
    const { text } = await ask(events[1]!.url!)
    for (const name of ['auth', 'relay', 'vault']) {
      const count = `did_auth_http_requests_total{server="${name}",route="/health",method="GET",status="200"} 1\n`
      expect(text).toContain(count)
    }
    server.signal('SIGINT')
    expect((await server.ended).code).toBe(0)
  })

  it('all stops the other servers and exits with 1 if one cannot start', async () => {
    const occupant = createServer()
    await new Promise<void>((resolve) => occupant.listen(0, '127.0.0.1', resolve))
    const { port } = occupant.address() as AddressInfo
    const env = { DATA_DIR: servers.folder, AUTH_PORT: '0', RELAY_PORT: '0', VAULT_PORT: String(port) }
    const { code, stdout, stderr } = await runCli(['all'], env)
    occupant.close()
    const sentence = `Cannot listen on 127.0.0.1:${port} (HOST, VAULT_PORT): the port is in use\n`
    expect([code, stderr]).toEqual([1, sentence])
    // No server logs that it is ready before all servers listen.
    const lines = stdout.trim().split('\n')
    const events = lines.map((line) => JSON.parse(line) as { event: string; server: string })
    expect(events.map(({ event, server }) => `${server} ${event}`).sort()).toEqual(['auth stopped', 'relay stopped'])
  })

  it('reconciles a vault and takes content down while its server runs', async () => {
    const vault = await servers.start({ SERVICE_URL: 'https://vault.example' }, [], 'vault')
    const owner = createNumberedWallet(1)
    const { accessToken } = await logIn(vault.url, owner, 'vault.example')
    const headers = { Authorization: `DIDAuth ${accessToken}` }
    const { text } = await post(`${vault.url}/notes`, { content: 'Milk' }, headers)
    const { id } = JSON.parse(text) as { id: string }
    const run = async (...args: string[]): Promise<(number | string | null)[]> => {
      const { code, stdout, stderr } = await runCli(['vault', ...args], { DATA_DIR: servers.folder })
      expect(stderr).toBe('')
      return [code, stdout]
    }
    const inOrder = /^database: sound\ncontent: 1 content in use, all undamaged\n/
    expect(await run('reconcile')).toEqual([0, expect.stringMatching(inOrder)])
    expect(await run('takedown', id, '--dry-run')).toEqual([0, expect.stringMatching(/^Would remove /)])
    expect((await ask(`${vault.url}/${owner.did}/notes`)).text).toBe('["Milk"]')
    expect(await run('takedown', id)).toEqual([0, expect.stringMatching(/^Removed 1 entry\. /)])
    expect((await ask(`${vault.url}/${owner.did}/notes`)).text).toBe('[]')
    expect((await post(`${vault.url}/notes`, { content: 'Milk' }, headers)).status).toBe(451)
    expect(await run('reconcile', '--dry-run')).toEqual([0, expect.stringContaining('\ncontent: no contents in use')])
  })

  // Cause: no command read the file that `keys new --out .env` wrote, and the server started as another DID.
  it('loads .env of the working directory, lets the environment override it, and logs the file', async () => {
    const run = (args: string[], env: Record<string, string> = {}) => spawnCli(args, env, [], servers.folder)
    expect((await run(['keys', 'new', '--out', '.env']).ended).code).toBe(0)
    const faultyLines = 'SERVICE_ULR=https://relay.example\nSERVICE_URL=localhost:3001\nTRUST_PROXY=true\n'
    appendFileSync(`${servers.folder}/.env`, `PORT=0\nLOG_LEVEL=loud\n${faultyLines}`)
    const text = readFileSync(`${servers.folder}/.env`, 'utf8')
    const { ended, output, child } = run(['relay'], { LOG_LEVEL: 'info' })
    await until(() => output().includes('"event":"ready"') || child.exitCode !== null)
    child.kill()
    const { stdout } = await ended
    const lines = stdout.trim().split('\n')
    const [unknown, url, proxy, , ready] = lines.map((line) => JSON.parse(line) as Record<string, string>)
    expect(unknown).toMatchObject({
      level: 'warn',
      variable: 'SERVICE_ULR',
      msg: 'SERVICE_ULR is not a variable of the servers. Did you mean SERVICE_URL?'
    })
    expect([url, proxy]).toMatchObject([
      {
        variable: 'SERVICE_URL',
        msg: 'SERVICE_URL localhost:3001 is not an http(s) URL. Set SERVICE_URL=http://localhost:3001'
      },
      { variable: 'TRUST_PROXY', msg: expect.stringMatching(/choose its own address\. Set TRUST_PROXY=1 /) }
    ])
    expect(ready).toMatchObject({
      serviceDid: /derived from it: (.+)$/m.exec(text)?.[1],
      content: 'local',
      envFile: '.env'
    })
    expect(ready?.msg).toMatch(/, content: local, settings from \.env$/)
    expect((await run(['doctor', '--server', 'relay']).ended).stdout).toContain('LOG_LEVEL')
  })

  it.each(['auth', 'vault'])('warns once of a SERVICE_URL without a scheme at %s', async (name) => {
    const env = { PORT: '0', SERVICE_URL: 'localhost:3000', PAGE: 'false' }
    const { ended, output, child } = spawnCli([name], env, [], servers.folder)
    await until(() => output().includes('"event":"ready"') || child.exitCode !== null)
    child.kill()
    const lines = (await ended).stdout.trim().split('\n')
    const warnings = lines
      .map((line) => JSON.parse(line) as Record<string, string>)
      .filter(({ level }) => level === 'warn')
    const msg = 'SERVICE_URL localhost:3000 is not an http(s) URL. Set SERVICE_URL=http://localhost:3000'
    expect(warnings).toMatchObject([{ event: 'configuration', variable: 'SERVICE_URL', msg }])
  })

  // Node reads NODE_TLS_REJECT_UNAUTHORIZED at each connection, and would stop verifying certificates.
  it('takes only server variables from .env, and names the others in one warning', async () => {
    writeFileSync(`${servers.folder}/.env`, 'NODE_TLS_REJECT_UNAUTHORIZED=0\nPORT=0\nPATH_OF_MINE=x\nRPC_URL_FILE=\n')
    const hook = `data:text/javascript,process.on('exit', () => console.log(process.env.NODE_TLS_REJECT_UNAUTHORIZED))`
    const { ended, output, child } = spawnCli(['relay'], {}, [hook], servers.folder)
    await until(() => output().includes('"event":"ready"') || child.exitCode !== null)
    child.kill()
    const { code, stdout, stderr } = await ended
    expect([code, stderr]).toEqual([0, ''])
    const lines = stdout.trim().split('\n')
    expect(lines.at(-1)).toBe('undefined')
    const warnings = lines.slice(0, -1).map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(warnings.filter(({ level }) => level === 'warn')).toMatchObject([
      { event: 'configuration', file: '.env', variables: ['NODE_TLS_REJECT_UNAUTHORIZED', 'PATH_OF_MINE'] }
    ])
    const doctor = await spawnCli(['doctor', '--server', 'relay'], {}, [], servers.folder).ended
    expect(doctor.stderr).toBe(
      'The servers ignore these variables of .env, because they do not have them: NODE_TLS_REJECT_UNAUTHORIZED, PATH_OF_MINE\n'
    )
  })

  it.each(['debug', 'silent'])('writes one ready line at LOG_LEVEL=%s', async (LOG_LEVEL) => {
    const server = await servers.start({ LOG_LEVEL, PAGE: 'false' })
    const lines = server.output().trim().split('\n')
    expect(lines).toHaveLength(1)
    expect(JSON.parse(lines[0]!)).toMatchObject({ level: 'info', server: 'auth', event: 'ready', url: server.url })
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(server.serviceUrl).toBe(server.url.replace('127.0.0.1', 'localhost'))
    expect(server.serviceDid).toMatch(/^did:ethr:rsk:0x[0-9a-f]{40}$/)
  })

  it('logs one line about an unexpected error, and exits with 1', async () => {
    const secret = '0x1234567890abcdef'
    for (const failure of [
      'throw new Error(process.env.TEST_SECRET)',
      'Promise.reject(new Error(process.env.TEST_SECRET))'
    ]) {
      const hook = `data:text/javascript,process.once('SIGUSR2', () => { ${failure} })`
      const server = await servers.start({ TEST_SECRET: secret }, [hook])
      server.signal('SIGUSR2')
      const { code, stdout, stderr } = await server.ended
      expect([code, stderr]).toEqual([1, ''])
      const last = stdout.trim().split('\n').at(-1)!
      expect(JSON.parse(last)).toMatchObject({ level: 'fatal', event: 'crashed', type: 'Error' })
      expect(stdout).not.toContain(secret)
    }
  })
})
