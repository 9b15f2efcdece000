import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { Socket } from 'node:net'
import { encodeBytes32String, hexlify, Interface } from 'ethers'
import { EthereumDIDRegistry } from 'ethr-did-registry'

const requireSlow = createRequire(new URL('../../slow/package.json', import.meta.url))
const registryInterface = new Interface(EthereumDIDRegistry.abi)

/** Age of a test chain's first block, one hour in seconds. For a resolver, shorter validities have expired. */
const GENESIS_SECONDS_AGO = 3_600

/** A real Ethereum chain with the did:ethr registry, where gas is free and any address may send. */
export interface TestChain {
  chainId: number
  rpcUrl: string
  /** Deploys a contract and returns its address. */
  deploy(bytecode: string): Promise<string>
  /** Puts code at an address. */
  setCode(address: string, code: string): Promise<void>
  /** Sends data to a contract. Throws an error if the chain refuses the transaction. */
  send(data: string, to: string): Promise<void>
  /** Address of the registry contract. */
  registry: string
  changeOwner(identity: string, newOwner: string, sender?: string): Promise<void>
  /**
   * Adds a delegate to an identity.
   *
   * @param validitySeconds - counted from one hour ago: below 3600, the delegate has expired
   */
  addDelegate(identity: string, type: 'veriKey' | 'sigAuth', delegate: string, validitySeconds?: number): Promise<void>
  revokeDelegate(identity: string, type: 'veriKey' | 'sigAuth', delegate: string): Promise<void>
  /** @param name - such as `did/pub/Ed25519/veriKey/base64` */
  setAttribute(identity: string, name: string, value: Uint8Array, validitySeconds?: number): Promise<void>
  revokeAttribute(identity: string, name: string, value: Uint8Array): Promise<void>
  stop(): void
}

/** Starts anvil on a free port and deploys the registry. Call `stop` in `afterAll`. */
export async function startChain(chainId = 31): Promise<TestChain> {
  const timestamp = Math.floor(Date.now() / 1000) - GENESIS_SECONDS_AGO
  const options = `--port 0 --chain-id ${String(chainId)} --timestamp ${String(timestamp)} --gas-price 0 --base-fee 0`
  const anvil = spawn(anvilPath(), [...options.split(' '), '--auto-impersonate'], {
    stdio: ['ignore', 'pipe', 'ignore']
  })
  const stop = (): void => {
    anvil.kill('SIGKILL')
    process.off('exit', stop)
  }
  process.once('exit', stop)
  // A test that fails before it can stop its chain must not keep Jest waiting.
  anvil.unref()
  if (anvil.stdout instanceof Socket) anvil.stdout.unref()

  const rpcUrl = await new Promise<string>((resolve, reject) => {
    let output = ''
    anvil.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      const address = /Listening on (\S+)/.exec(output)?.[1]
      if (address === undefined) return
      // Discards later output, which would otherwise fill the pipe.
      anvil.stdout.removeAllListeners('data').resume()
      resolve(`http://${address}`)
    })
    anvil.once('error', reject)
    anvil.once('exit', (code) => reject(new Error(`anvil ended with ${String(code)}`)))
  })

  const send = async (from: string, data: string, to?: string): Promise<string> => {
    // Sets the gas, because the estimate is too low for a second change of one identity.
    const transaction = { from, data, gas: '0x7a1200', gasPrice: '0x0', ...(to !== undefined && { to }) }
    const hash = await askChain(rpcUrl, 'eth_sendTransaction', [transaction])
    // Anvil creates one block per transaction, which may be delayed.
    let receipt: unknown = null
    while (receipt === null) receipt = await askChain(rpcUrl, 'eth_getTransactionReceipt', [hash])
    const { status, contractAddress } = receipt as { status: string; contractAddress: string }
    if (status !== '0x1') throw new Error('the chain refused a transaction')
    return contractAddress
  }
  const [deployer] = (await askChain(rpcUrl, 'eth_accounts', [])) as [string]
  const registry = await send(deployer, EthereumDIDRegistry.bytecode)
  const change = async (sender: string, verb: string, ...args: unknown[]): Promise<void> => {
    await send(sender, registryInterface.encodeFunctionData(verb, args), registry)
  }

  return {
    chainId,
    rpcUrl,
    registry,
    deploy: (bytecode) => send(deployer, bytecode),
    setCode: async (address, code) => {
      await askChain(rpcUrl, 'anvil_setCode', [address, code])
    },
    send: async (data, to) => {
      await send(deployer, data, to)
    },
    changeOwner: (identity, newOwner, sender = identity) => change(sender, 'changeOwner', identity, newOwner),
    addDelegate: (identity, type, delegate, validitySeconds = 86_400) =>
      change(identity, 'addDelegate', identity, encodeBytes32String(type), delegate, validitySeconds),
    revokeDelegate: (identity, type, delegate) =>
      change(identity, 'revokeDelegate', identity, encodeBytes32String(type), delegate),
    setAttribute: (identity, name, value, validitySeconds = 86_400) =>
      change(identity, 'setAttribute', identity, encodeBytes32String(name), hexlify(value), validitySeconds),
    revokeAttribute: (identity, name, value) =>
      change(identity, 'revokeAttribute', identity, encodeBytes32String(name), hexlify(value)),
    stop
  }
}

/** Returns the path of anvil's binary. Killing the wrapper script would leave the binary running. */
function anvilPath(): string {
  const architecture = process.arch === 'x64' ? 'amd64' : process.arch
  return requireSlow.resolve(`@foundry-rs/anvil-${process.platform}-${architecture}/bin/anvil`)
}

async function askChain(rpcUrl: string, method: string, params: unknown[]): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const response = await fetch(rpcUrl, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown }
  if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`)
  return result
}
