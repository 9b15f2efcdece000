import { existsSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { dirname, join } from 'node:path'
import { didOfPrivateKey, loadCurve } from 'express-did-auth'
import { addressOfDid, isEthrDid, networkOfDid } from 'express-did-auth/protocol'
import {
  defaultNetworks,
  fetchIssuerKeys,
  findListPublisher,
  isLoopbackHost,
  toNetwork,
  within
} from 'express-did-auth/server-kit'
import { createPrivateFolder } from '../../config/private-files.js'
import type { ServerEnv } from '../../config/read-env.js'
import { findPrivateKey } from '../../config/service-identity.js'
import { describeReason } from '../../config/startup-error.js'
import { limitMilliseconds } from '../../config/time-limits.js'
import { createIpfsHttpNode } from '../../ipfs/ipfs-rpc-client.js'
import { fetchChainId } from '../../observability/health-checks.js'
import {
  openDatabase,
  openRedis,
  createStartError,
  type EngineId,
  type RemoteEngine
} from '../../content/connections.js'
import { MAX_USED_PERCENT, createDiskUsage, type UsedPercent } from '../../content/disk-space.js'
import { getDataFolder } from '../../content/engine.js'
import { change, note, type Finding, type Findings } from './finding.js'

const { doctorCall: TIMEOUT_MILLISECONDS } = limitMilliseconds

/** Chain ids of the networks for which only an own RPC node can be configured. */
const OTHER_CHAIN_IDS: Readonly<Record<string, number>> = { ethereum: 1, sepolia: 11_155_111 }

/** Parts of the machine and the network that tests replace. */
export interface DependencyOptions {
  usedPercent?: (folder: string) => ReturnType<UsedPercent>
  /** Public RPC nodes by network, which are checked if no RPC node is configured. */
  defaultNodes?: Readonly<Record<string, string>>
  /** Addresses of this machine that other machines can reach. */
  addresses?: readonly string[]
}

/** Remedies for unavailable dependencies, by their names in the response of `/ready`. */
export const remedies = {
  store: 'restore moved files, free space on the disk, or DATA_DIR=<folder that the user of the servers may write to>',
  database: 'DATABASE_URL=…, or start the database',
  redis: 'REDIS_URL=…, or start Redis',
  objects: 'S3_ENDPOINT=… and the other S3_ variables, or start the object storage',
  signer: 'PRIVATE_KEY=…',
  clock: 'timedatectl set-ntp true (on that machine)',
  ipfs: 'IPFS_API_URL=…, or start the IPFS node',
  rpc: 'RPC_URL=…, or start the RPC node',
  issuer: 'TRUSTED_ISSUER=…, or let that machine resolve its name and trust its certificate (NODE_EXTRA_CA_CERTS)'
}

/**
 * Checks the dependencies of servers that share an environment, with the functions that the servers use. It changes no
 * table, and deletes the files that it writes.
 */
export async function checkDependencies(envs: readonly ServerEnv[], options: DependencyOptions): Promise<Findings> {
  const auth = envs.length > 1 ? envs.find(({ name }) => name === 'auth') : undefined
  const ownIssuer = auth && (auth.SERVICE_URL ?? `http://localhost:${auth.address.port}`)
  const checks = [
    ...envs.slice(0, 1).flatMap(checkEngines),
    ...envs.flatMap((env) => [findStorageFault(env, options), findForeignDid(env)]),
    ...envs.flatMap((env) => checkNetwork(env, options, ownIssuer))
  ]
  return Promise.all(checks)
}

/** Checks the configured database and Redis like the start of a server. */
function checkEngines(env: ServerEnv): Promise<Finding | false>[] {
  const mode = env.DATABASE_MIGRATE ? 'print' : 'check'
  const open = (url: string): Promise<RemoteEngine> =>
    openDatabase(env, url, { mode, timeoutSeconds: TIMEOUT_MILLISECONDS / 1_000 })
  return [
    findEngineFault('database', env.DATABASE_URL, open),
    findEngineFault('redis', env.REDIS_URL, (url) => openRedis(env, url))
  ]
}

async function findEngineFault(
  id: EngineId,
  url: string | undefined,
  open: (url: string) => Promise<RemoteEngine>
): Promise<Finding | false> {
  if (url === undefined) return false
  try {
    const engine = await open(url)
    await engine.check().finally(() => engine.close())
    return false
  } catch (error) {
    return change(id, createStartError(error, id).message, remedies[id])
  }
}

async function findStorageFault(
  env: ServerEnv,
  { usedPercent = readDiskUsage }: DependencyOptions
): Promise<Finding | false> {
  const remedy =
    'free space on that disk, or DATA_DIR=<folder with free space that the user of the servers may write to>'
  for (const folder of [env.DATA_DIR, getDataFolder(env)]) {
    try {
      probeFolder(folder)
    } catch (error) {
      return change('data-dir', `The server cannot write to ${folder}: ${describeReason(error)}`, remedy)
    }
  }
  // Content is not on this disk if a database is configured.
  if (env.DATABASE_URL !== undefined) return false
  const percent = Math.floor(await usedPercent(env.DATA_DIR).catch(() => 0))
  const isFull = percent >= MAX_USED_PERCENT
  return isFull && change('disk-full', `The disk of ${env.DATA_DIR} (DATA_DIR) is ${percent} % full`, remedy)
}

/** Reads the disk usage of a folder. For a missing folder, it reads that of the nearest existing parent. */
function readDiskUsage(folder: string): ReturnType<UsedPercent> {
  const canBeRead = existsSync(folder) || dirname(folder) === folder
  return canBeRead ? createDiskUsage(folder)() : readDiskUsage(dirname(folder))
}

/** Creates a folder as the server does, and writes to it. Then removes the folders that were missing. */
function probeFolder(folder: string): void {
  const created = createPrivateFolder(folder)
  try {
    writeProbe(folder)
  } finally {
    try {
      for (const path of created.reverse()) rmdirSync(path)
    } catch {
      // A server that starts at the same time has written to it.
    }
  }
}

/** Writes a file of the size of a disk block, so that the write fails on a full disk, and deletes it. */
function writeProbe(folder: string): void {
  const file = join(folder, `doctor-${process.pid}.tmp`)
  try {
    writeFileSync(file, Buffer.alloc(4_096), { mode: 0o600, flush: true })
  } finally {
    rmSync(file, { force: true })
  }
}

/** Finds a SERVICE_DID with the address of another key. DIDs of other methods contain no address. */
async function findForeignDid(env: ServerEnv): Promise<Finding | false> {
  const { SERVICE_DID: serviceDid, NETWORK_NAME = 'rsk' } = env
  const network = toNetwork(NETWORK_NAME)
  const key = findPrivateKey(env)
  if (serviceDid === undefined || key === undefined || !isEthrDid(serviceDid)) return false
  const didNetwork = networkOfDid(serviceDid) ?? network
  const keyDid = await didOfPrivateKey(key, didNetwork)
  if (addressOfDid(serviceDid, await loadCurve()) === addressOfDid(keyDid)) return false
  const problem = `SERVICE_DID does not belong to PRIVATE_KEY, whose DID is ${keyDid}`
  const remedy =
    didNetwork === network ? 'remove SERVICE_DID, so that the DID is derived from PRIVATE_KEY' : `SERVICE_DID=${keyDid}`
  return change('service-did', problem, remedy)
}

/** Checks the chains of a server's RPC nodes, the keys of its issuer, and who can reach its IPFS node. */
function checkNetwork(
  env: ServerEnv,
  { defaultNodes, addresses = findPublicAddresses() }: DependencyOptions,
  ownIssuer: string | undefined
): Promise<Finding | false>[] {
  const { name, RPC_URL: rpcUrl, NETWORK_NAME: network = 'rsk', IPFS_API_URL: ipfsUrl, TRUSTED_ISSUER: issuer } = env
  const publicNodes = defaultNodes ?? Object.fromEntries(defaultNetworks.map(({ name, rpcUrl }) => [name, rpcUrl]))
  const nodes = rpcUrl === undefined ? publicNodes : { [network]: rpcUrl }
  const checks =
    name === 'relay'
      ? []
      : Object.entries(nodes).map(([network, url]) => findChainFault(network, url, rpcUrl === undefined))
  if (name !== 'auth' && ipfsUrl !== undefined) checks.push(checkIpfsNode(ipfsUrl, addresses))
  if (name !== 'auth' && issuer !== undefined && issuer !== ownIssuer) checks.push(findIssuerFault(issuer, env))
  return checks
}

async function findChainFault(network: string, url: string, isDefault: boolean): Promise<Finding | false> {
  // A configured address is not shown, because it often contains an API key.
  const shown = isDefault ? url : 'RPC_URL'
  const chainId = await fetchChainId(url, AbortSignal.timeout(TIMEOUT_MILLISECONDS)).then(Number, describeReason)
  if (typeof chainId === 'string') {
    const problem = `${shown} does not answer: ${chainId}`
    if (isDefault) return note('rpc-unavailable', problem, 'RPC_URL=<URL of your own node>')
    return change('rpc-unavailable', problem, 'RPC_URL=…')
  }
  const expected = findChainId(network.toLowerCase())
  const answer = `${shown} serves chain ${chainId}`
  const unknown = `${answer}, but doctor does not know the chain id of ${network}`
  const wrong = `${answer}, but ${network} is chain ${expected ?? ''}`
  if (expected === undefined) return note('rpc-chain', unknown, `NETWORK_NAME=0x${chainId.toString(16)}`)
  return chainId !== expected && change('rpc-chain', wrong, 'RPC_URL=… or NETWORK_NAME=…')
}

/** Finds the chain id of a network by its name, which may be the id in hexadecimal. */
function findChainId(network: string): number | undefined {
  if (network.startsWith('0x')) return Number(network)
  return defaultNetworks.find(({ name }) => name === network)?.chainId ?? OTHER_CHAIN_IDS[network]
}

const ISSUER_REMEDY =
  'TRUSTED_ISSUER=…, or let this machine resolve its name and trust its certificate (NODE_EXTRA_CA_CERTS)'

/** Finds an issuer without keys or, as a note, without a list of ended sessions. */
async function findIssuerFault(
  issuer: string,
  { ENDED_SESSIONS_WHEN_STALE: whenStale }: Pick<ServerEnv, 'ENDED_SESSIONS_WHEN_STALE'>
): Promise<Finding | false> {
  const name = `${issuer} (TRUSTED_ISSUER)`
  const reason = await within(TIMEOUT_MILLISECONDS, fetchIssuerKeys(issuer)).then(() => undefined, describeReason)
  if (reason !== undefined) return change('issuer', `${name} returns no keys: ${reason}`, ISSUER_REMEDY)
  const publisher = await within(TIMEOUT_MILLISECONDS, findListPublisher(issuer)).catch(() => undefined)
  if (publisher !== undefined) return false
  const problem = `${name} publishes no list of ended sessions`
  if (whenStale === 'refuse')
    return change('issuer-list', `${problem}, so that all its tokens get 503`, 'ENDED_SESSIONS_WHEN_STALE=accept')
  const remedy = 'ENDED_SESSIONS=true at that server, or endedSessions: true in its own app'
  return note('issuer-list', `${problem}: its tokens are accepted until they expire, also after a logout`, remedy)
}

const LOCAL_REMEDY = 'ipfs config Addresses.API /ip4/127.0.0.1/tcp/5001'
/** Checks whether the usual RPC port of an IPFS node answers on the host of a service. */
export const checkIpfsPort = (hostname: string): Promise<Finding | false> =>
  findOpenNode([`http://${hostname}:5001`], LOCAL_REMEDY)

function checkIpfsNode(text: string, addresses: readonly string[]): Promise<Finding | false> {
  const { protocol, host, hostname, port } = new URL(text)
  // The finding must not show the user and password that the URL may contain.
  if (!isLoopbackHost(hostname))
    return findOpenNode([`${protocol}//${host}`], 'put a proxy with a password in front', 'the node of IPFS_API_URL')
  const nodePort = port === '' ? (protocol === 'https:' ? '443' : '80') : port
  const origins = addresses.map((address) => `${protocol}//${address}:${nodePort}`)
  return findOpenNode(origins, LOCAL_REMEDY)
}

async function findOpenNode(origins: readonly string[], remedy: string, shown?: string): Promise<Finding | false> {
  const answers = await Promise.all(origins.map(isIpfsNode))
  const openOrigin = origins[answers.indexOf(true)]
  const name = shown ?? openOrigin?.replace(/^\w+:\/\//, '') ?? ''
  const problem = `Other machines can reach the RPC port of the IPFS node: ${name}`
  return openOrigin !== undefined && change('ipfs-open', problem, remedy)
}

function isIpfsNode(origin: string): Promise<boolean> {
  const node = createIpfsHttpNode(origin, { deadlineMilliseconds: TIMEOUT_MILLISECONDS })
  return node.ping().then(
    () => true,
    () => false
  )
}

function findPublicAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flat()
    .flatMap((entry) => (entry === undefined || entry.internal || entry.address.startsWith('fe80') ? [] : [entry]))
    .map(({ address, family }) => (family === 'IPv6' ? `[${address}]` : address))
}
