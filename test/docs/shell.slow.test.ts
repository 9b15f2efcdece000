import { afterAll, describe, expect, it } from '@jest/globals'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { variableNames } from '../../servers/config/env-schema.js'
import { serverPorts } from '../../servers/config/read-env.js'
import { clientHook, documentFiles, packageJson, readDocument, root } from '../support/fixtures/documents.js'
import { runExample, scriptFile } from '../support/servers/run-script.js'
import { ServerProcesses } from '../support/servers/server-process.js'

/** Files that a document tells its reader to save. */
const SAVED = ['server.js', 'client.js']

/** Scripts of an app that `init` wrote. */
const SCRIPTS_OF_THE_STARTER = ['dev']

/** Usage text of the servers' command line. */
const usage = /const USAGE = `([^]*?)`/.exec(readFileSync(join(root, 'servers/cli.ts'), 'utf8'))![1]!

const isServerCommand = (args: string): boolean => {
  const [server = '', command] = args.split(' ')
  // Readers replace the address of a service, the options and the name of a backup.
  const shown = /^(?:https:\/\/|--|backup-\d$)/.test(command ?? '') ? '' : (command ?? '')
  const options = [...args.matchAll(/(?<= )--[\w-]+/g)].map(([option]) => option)
  return (
    new RegExp(`^  ${`${server} ${shown}`.trim()}(?= |$)`, 'm').test(usage) &&
    options.every((option) => new RegExp(`[[| ]${option}[\\] |]`).test(usage))
  )
}

/** Whether a line that writes a variable to `.env` names one of the servers. */
const isVariable = (name: string): boolean => variableNames.includes(name.replace(/^[A-Z]+_(?=SERVICE_URL$)/, ''))

/** Programs of an operator's machine, and globally installed servers. */
const OF_THE_SYSTEM =
  /^(?:cd|createdb|docker (?:build|run)|install|journalctl|mv|pg_dump|pg_restore|systemctl|tar|umask|useradd) /

/** Names of the packages of this repository. */
const PACKAGES = ['express-did-auth', 'express-did-auth-client', 'express-did-auth-servers']

/** Whether a line of a document can be typed unchanged. */
function isRunnable(line: string): boolean {
  const command = line.replace(/^(?:[A-Z_]+=\S* )+(?=npx |docker )/, '').replace(/ +#.*$/, '')
  const names = command.match(/\bexpress-did-auth(?![-\w.:]*\/)[-\w]*(?:\.\d+\.\d+\.tgz)?/g) ?? []
  if (names.some((name) => !PACKAGES.includes(name.replace(`-${packageJson.version}.tgz`, '')))) return false
  const variable = /^echo ["']([A-Z_]+)=.*["'] >> \.env$/.exec(command)?.[1]
  if (variable !== undefined) return isVariable(variable)
  if (/^(?:[A-Z]+=|curl |echo "\$|Verification code: )/.test(command)) return true
  const script = /^npm run ([\w:-]+)(?: -- .*)?$/.exec(command)?.[1]
  if (script !== undefined) return [...SCRIPTS_OF_THE_STARTER, ...Object.keys(packageJson.scripts)].includes(script)
  if (/^npm (?:ci|test(?: -- \S+)?|start|pkg set type=module|pack .*|install(?: .*)?)$/.test(command)) return true
  const file = /^node (\S+)(?: .*)?$/.exec(command)?.[1] ?? /^docker compose -f (\S+) /.exec(command)?.[1]
  if (file !== undefined) return SAVED.includes(file) || existsSync(join(root, file))
  if (
    /^npx (?:--package=\S+ )?express-did-auth init [\w-]+(?: --(?:cookies|typescript|vite|store sqlite))*$/.test(
      command
    )
  )
    return true
  const args = /^(?:npx|runuser -u did-auth --) express-did-auth-servers (.*)$/.exec(command)?.[1]
  if (args !== undefined) return isServerCommand(args)
  if (OF_THE_SYSTEM.test(command)) return true
  return ['npx vitest run', 'npx jest'].includes(command)
}

describe.each(documentFiles)('the shell commands of %s', (file) => {
  const blocks = readDocument(file).blocks.filter(({ language }) => language === 'sh')

  it('name existing scripts, files and commands', () => {
    const lines = blocks.flatMap(({ code }) => code.split('\n')).filter((line) => !/^\s*(?:#|$)/.test(line))
    expect(lines.filter((line) => !isRunnable(line))).toEqual([])
  })
})

describe('the curl walkthroughs', () => {
  const steps = readDocument('examples/README.md').blocks.filter(
    ({ language, code }) => language === 'sh' && code.includes('curl')
  )
  const servers = new ServerProcesses({ LOG_LEVEL: 'silent' })

  afterAll(() => servers.killAll())

  it('log in, relay a file and store data at the three servers, unchanged except for the ports', async () => {
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
      [
        {
          sessionId: expect.stringMatching(/^[\w-]{24}$/),
          createdAt: expect.any(Number),
          refreshedAt: expect.any(Number),
          expiresAt: expect.any(Number),
          isCurrent: true,
          description: 'curl'
        }
      ],
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
  })
})

describe('the client of the README', () =>
  it('logs in at the quick start and prints the profile', async () => {
    const { server, stop } = await runExample(() => import('../../examples/quickstart.js'))
    try {
      if (!server.listening) await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const imports = [pathToFileURL(scriptFile('test/support/servers/server-imports.ts')).href, clientHook(port)]
      const args = [...imports.flatMap((file) => ['--import', file]), 'examples/log-in.mjs']
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root })
      expect(stdout).toMatch(/^200 \{ did: 'did:ethr:rsk:0x[0-9a-fA-F]{40}' \}\n$/)
    } finally {
      stop()
    }
  }))

describe('runExample', () =>
  it('throws if no server listens', () =>
    expect(runExample(async () => undefined)).rejects.toThrow('0 servers instead of one')))
