import { networkInterfaces } from 'node:os'
import { fetchIssuerKeys, isLoopbackHost, within } from 'express-did-auth/server-kit'
import { migrateStore } from 'express-did-auth/stores/postgres'
import type { ServerEnv } from '../../config/read-env.js'
import { describeReason, describeFailure } from '../../config/startup-error.js'
import { askChainId } from '../../observability/health-checks.js'
import { pingRedis, connectDatabase, connectRedis, throwUnusable } from '../../storage/connections.js'
import { readBoundedText } from '../service-under-test.js'
import { change, note, type Finding, type Found } from './finding.js'

const TIMEOUT_MILLISECONDS = 3_000

const CHAIN_IDS: Readonly<Record<string, number>> = { rsk: 30, 'rsk:testnet': 31, ethereum: 1, sepolia: 11_155_111 }

/** Asked where no RPC node is configured. */
const DEFAULT_NODES: Readonly<Record<string, string>> = {
  rsk: 'https://public-node.rsk.co',
  'rsk:testnet': 'https://public-node.testnet.rsk.co'
}

/** Targets of the network checks, which tests replace. */
export interface NetworkDependencies {
  defaultNodes?: Readonly<Record<string, string>>
  /** Addresses of this machine that other machines reach. */
  addresses?: readonly string[]
  /** `SERVICE_URL` of auth, if all servers run in one process: its keys are not fetched. */
  ownIssuer?: string | undefined
}

/** Checks the database and the Redis that the environment names. All its servers share them. */
export async function checkEngines(env: ServerEnv): Promise<Found> {
  return Promise.all([
    findFault('database', env.DATABASE_URL, async (url) => {
      const database = await connectDatabase(env, url, TIMEOUT_MILLISECONDS / 1_000)
      await migrateStore(database, { mode: env.DATABASE_MIGRATE ? 'print' : 'check' }).finally(() => database.close())
    }),
    findFault('redis', env.REDIS_URL, async (url) => {
      const quotas = await connectRedis(url)
      await pingRedis(quotas).finally(() => quotas.close())
    })
  ])
}

type AskEngine = (url: string) => Promise<void>

async function findFault(id: 'database' | 'redis', url: string | undefined, ask: AskEngine): Promise<Finding | false> {
  const [what, variable] = id === 'redis' ? ['Redis', 'REDIS_URL'] : ['the database', 'DATABASE_URL']
  try {
    if (url !== undefined) await ask(url).catch((error: unknown) => throwUnusable(error, `${what} (${variable})`))
    return false
  } catch (error) {
    return change(id, describeFailure(error), `${variable}=…, or start what it names`)
  }
}

/** Asks the RPC nodes of a server for their chains, its issuer for keys, and finds out who reaches its IPFS node. */
export async function checkNetwork(
  env: ServerEnv,
  { defaultNodes = DEFAULT_NODES, addresses = findPublicAddresses(), ownIssuer }: NetworkDependencies
): Promise<Found> {
  const { name, RPC_URL: rpcUrl, NETWORK_NAME: network = 'rsk', IPFS_API_URL: ipfsUrl } = env
  const isDefault = rpcUrl === undefined
  const nodes = isDefault ? defaultNodes : { [network]: rpcUrl }
  const asked = Object.entries(name === 'relay' ? {} : nodes).map(async ([network, url]) => {
    // The address of a node often carries a key.
    const shown = isDefault ? url : 'RPC_URL'
    const chainId = await askChainId(url, AbortSignal.timeout(TIMEOUT_MILLISECONDS)).then(Number, describeReason)
    if (typeof chainId === 'number') return checkChain(network, shown, chainId)
    const what = `${shown} does not answer: ${chainId}`
    if (isDefault) return note('rpc-unavailable', what, 'RPC_URL=<node of your own>')
    return change('rpc-unavailable', what, 'RPC_URL=…')
  })
  if (name !== 'auth' && ipfsUrl !== undefined) asked.push(checkIpfsNode(ipfsUrl, addresses))
  const { TRUSTED_ISSUER: issuer } = env
  if (name !== 'auth' && issuer !== undefined && issuer !== ownIssuer) asked.push(findIssuerFault(issuer))
  return Promise.all(asked)
}

async function findIssuerFault(issuer: string): Promise<Finding | false> {
  const reason = await within(TIMEOUT_MILLISECONDS, fetchIssuerKeys(issuer)).then(() => undefined, describeReason)
  const remedy =
    'TRUSTED_ISSUER=…, or let this machine resolve its name and trust its certificate (NODE_EXTRA_CA_CERTS)'
  return reason !== undefined && change('issuer', `${issuer} (TRUSTED_ISSUER) gives no keys: ${reason}`, remedy)
}

function checkChain(network: string, shown: string, chainId: number): Finding | false {
  const expected = /^0x/i.test(network) ? Number(network) : CHAIN_IDS[network.toLowerCase()]
  const what = `${shown} is chain ${chainId}, and ${network} is`
  const unknown = `${what} a network unknown here`
  if (expected === undefined) return note('rpc-chain', unknown, `NETWORK_NAME=0x${chainId.toString(16)}`)
  return chainId !== expected && change('rpc-chain', `${what} chain ${expected}`, 'RPC_URL=… or NETWORK_NAME=…')
}

const LOCAL_REMEDY = 'ipfs config Addresses.API /ip4/127.0.0.1/tcp/5001'
/** Checks whether the usual RPC port of an IPFS node answers on the host of a service. */
export const checkIpfsPort = (hostname: string): Promise<Finding | false> =>
  openAt([`http://${hostname}:5001`], LOCAL_REMEDY)

function checkIpfsNode(text: string, addresses: readonly string[]): Promise<Finding | false> {
  const { protocol, host, hostname, port } = new URL(text)
  // The user and password that the URL may contain are left out.
  if (!isLoopbackHost(hostname))
    return openAt([`${protocol}//${host}`], 'a proxy that asks for a password', 'the node of IPFS_API_URL')
  const own = port === '' ? (protocol === 'https:' ? '443' : '80') : port
  const origins = addresses.map((address) => `${protocol}//${address}:${own}`)
  return openAt(origins, LOCAL_REMEDY)
}

async function openAt(origins: readonly string[], remedy: string, shown?: string): Promise<Finding | false> {
  const answers = await Promise.all(origins.map(isIpfsNode))
  const open = origins[answers.indexOf(true)]
  const where = shown ?? open?.replace(/^\w+:\/\//, '') ?? ''
  return open !== undefined && change('ipfs-open', `The RPC port of the IPFS node is open to others: ${where}`, remedy)
}

async function isIpfsNode(origin: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MILLISECONDS)
    const response = await fetch(`${origin}/api/v0/version`, { method: 'POST', redirect: 'manual', signal })
    return response.status === 200 && (await readBoundedText(response, origin)).includes('"Version"')
  } catch {
    return false
  }
}

function findPublicAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flat()
    .flatMap((one) => (one === undefined || one.internal || one.address.startsWith('fe80') ? [] : [one]))
    .map(({ address, family }) => (family === 'IPv6' ? `[${address}]` : address))
}
