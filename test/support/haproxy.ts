import { spawn, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { freePort } from './postgres-server.js'
import { temporaryFolder } from './store-folder.js'
import { until } from './until.js'

const program = process.env.HAPROXY ?? 'haproxy'

/** A balancer with the settings of servers/docker/haproxy.cfg. */
export interface Balancer {
  readonly url: string
  /** Whether it sends requests to an instance, by its port. */
  isUp(port: number): Promise<boolean>
  stop(): Promise<void>
}

/** What HAProxy says against a configuration; an empty text when it is valid. */
export function faultsOf(file: string): string {
  const { status, stdout, stderr } = spawnSync(program, ['-c', '-f', file], { encoding: 'utf8' })
  return status === 0 ? '' : `${stdout}${stderr}`
}

/**
 * Starts HAProxy in front of instances of the auth server.
 *
 * @param file - the configuration, whose names of containers become the ports
 */
export async function startBalancer(file: string, ports: readonly number[]): Promise<Balancer> {
  const { path: folder, remove } = temporaryFolder()
  const [port, socket, own] = [await freePort(), join(folder, 'socket'), join(folder, 'haproxy.cfg')]
  const servers = ports.map((one) => `  server auth${one} 127.0.0.1:${one}`).join('\n')
  const config = readFileSync(file, 'utf8')
    // One server of the three, found without a name server.
    .replace(/^(?:frontend|backend) (?:relay|relay_files|vault)\n(?: .*\n?)*/gm, '')
    .replace(/^resolvers docker\n(?: .*\n)*/m, '')
    .replace(' init-addr libc,none resolvers docker', '')
    .replace('bind :3000', `bind 127.0.0.1:${port}`)
    .replace(/^ *server-template auth .*$/m, servers)
    .replace(/^global$/m, `global\n  stats socket ${socket}`)
  writeFileSync(own, config)
  const child = spawn(program, ['-f', own, '-db'], { stdio: 'ignore' })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const isUp = async (instance: number): Promise<boolean> =>
    (await tell(socket, 'show stat')).split('\n').some((line) => {
      const [, name, ...columns] = line.split(',')
      return name === `auth${instance}` && columns.includes('UP')
    })
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${faultsOf(own)}`)
    return (await Promise.all(ports.map(isUp))).every(Boolean)
  })
  return {
    url: `http://127.0.0.1:${port}`,
    isUp,
    stop: async () => {
      child.kill('SIGKILL')
      await ended
      remove()
    }
  }
}

/** What HAProxy answers to a command; an empty text before it listens. */
function tell(socket: string, command: string): Promise<string> {
  return new Promise((resolve) => {
    let answer = ''
    const connection = connect(socket, () => connection.write(`${command}\n`))
    connection.on('data', (data) => (answer += String(data)))
    connection.on('error', () => undefined)
    connection.on('close', () => {
      resolve(answer)
    })
  })
}
