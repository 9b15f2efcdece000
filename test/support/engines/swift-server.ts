import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { S3Client } from '../../../servers/content/s3/s3-client.js'
import type { S3StoreOptions } from '../../../servers/content/s3/s3-object-store.js'
import { temporaryFolder } from '../fixtures/store-folder.js'
import { freePort } from '../faults/tcp-proxy.js'
import { until } from '../fixtures/until.js'

/** OpenStack Swift with its S3 API, and a bucket. */
export interface SwiftServer {
  /** Returns options of a store whose keys have the prefix. */
  options(prefix: string): S3StoreOptions
  /** Stops the servers of objects, lists and accounts. The proxy that answers requests keeps running. */
  stopStorage(): Promise<void>
  /** Ends all servers, and removes the folder. */
  stop(): Promise<void>
}

const LAYERS = ['object', 'container', 'account'] as const
const ACCOUNT = { accessKeyId: 'test:tester', secretAccessKey: 'testing', region: 'us-east-1' }
/** Maximum number of objects that one response lists. */
export const PAGE_LENGTH = 100
const PIPELINE = 'catch_errors gatekeeper cache listing_formats s3api tempauth copy slo'

/**
 * Starts Swift on free ports, with one copy of all data in a new folder. The file system must support extended
 * attributes, which older versions of Linux do not have in memory. The only other file that Swift reads is
 * `/etc/swift/swift.conf` of Debian's package.
 */
export async function startSwift(): Promise<SwiftServer> {
  const { path: folder, remove } = temporaryFolder('/var/tmp')
  const [proxyPort = 0, cachePort = 0, ...storagePorts] = await Promise.all([1, 2, 3, 4, 5].map(freePort))
  const running: Running[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(running.map((server) => server.stop()))
    remove()
  }
  try {
    mkdirSync(join(folder, 'devices', 'd1'), { recursive: true })
    const storage = LAYERS.map((layer, index) => startLayer(folder, layer, storagePorts[index] ?? 0))
    running.push(...storage)
    running.push(start('memcached', ['-u', userInfo().username, '-l', '127.0.0.1', '-p', String(cachePort)]))
    running.push(startServer(folder, 'proxy', proxyPort, PIPELINE, proxySections(cachePort)))
    const options = (prefix: string): S3StoreOptions => {
      return { ...ACCOUNT, endpoint: `http://127.0.0.1:${proxyPort}`, bucket: 'content', forcePathStyle: true, prefix }
    }
    await makeBucket(options(''), running)
    const stopStorage = async (): Promise<void> => {
      await Promise.all(storage.map((server) => server.stop()))
    }
    return { options, stopStorage, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Creates the bucket. Success means that all servers are ready. */
async function makeBucket(options: S3StoreOptions, running: readonly Running[]): Promise<void> {
  const caller = new S3Client(options, { retries: 0 })
  let lastAnswer: unknown
  await until(async () => {
    const ended = running.find(({ child }) => child.exitCode !== null)
    if (ended !== undefined) throw new Error(`Swift ended: ${ended.output()}`)
    lastAnswer = await caller.callForText({ method: 'PUT', key: '' }, 65_536).catch((error: unknown) => error)
    return typeof lastAnswer === 'string'
  }).catch((error: unknown) => {
    throw new Error(`Swift does not answer: ${String(lastAnswer)}`, { cause: error })
  })
}

/** Creates a ring with one device, and starts its server. */
function startLayer(folder: string, layer: string, port: number): Running {
  const builder = join(folder, `${layer}.builder`)
  const device = `--region 1 --zone 1 --ip 127.0.0.1 --port ${port} --device d1 --weight 1`.split(' ')
  for (const args of [['create', '4', '1', '0'], ['add', ...device], ['rebalance']])
    execFileSync('swift-ring-builder', [builder, ...args], { stdio: 'pipe' })
  return startServer(folder, layer, port, '', `[app:${layer}-server]\nuse = egg:swift#${layer}`)
}

function proxySections(cachePort: number): string {
  const filters = PIPELINE.split(' ').filter((name) => name !== 'cache')
  return [
    '[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true',
    `[filter:cache]\nuse = egg:swift#memcache\nmemcache_servers = 127.0.0.1:${cachePort}`,
    ...filters.map((name) => `[filter:${name}]\nuse = egg:swift#${name}`)
  ]
    .join('\n')
    .replace('egg:swift#tempauth', 'egg:swift#tempauth\nuser_test_tester = testing .admin')
    .replace('egg:swift#s3api', `egg:swift#s3api\nmax_bucket_listing = ${PAGE_LENGTH}`)
}

function startServer(folder: string, name: string, port: number, pipeline: string, sections: string): Running {
  const file = join(folder, `${name}.conf`)
  const sharedSettings = `swift_dir = ${folder}\ndevices = ${folder}/devices\nmount_check = false\nuser = ${userInfo().username}`
  const head = `[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = ${port}\nworkers = 0\n${sharedSettings}`
  writeFileSync(file, `${head}\n[pipeline:main]\npipeline = ${pipeline} ${name}-server\n${sections}\n`)
  return start(`swift-${name}-server`, [file, '-v'])
}

interface Running {
  readonly child: ChildProcess
  /** Returns the output so far. */
  output(): string
  stop(): Promise<void>
}

function start(program: string, args: readonly string[]): Running {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH } })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const ended = once(child, 'close')
  const kill = (): void => void child.kill('SIGKILL')
  // Ends the server even if the test file ends before it stops the server.
  process.once('exit', kill)
  const stop = async (): Promise<void> => {
    process.off('exit', kill)
    kill()
    await ended
  }
  return { child, output: () => output, stop }
}
