import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  AbiCoder,
  concat,
  getCreate2Address,
  hashMessage,
  Interface,
  keccak256,
  TypedDataEncoder,
  Wallet
} from 'ethers'
import type { TestChain } from './chain.js'
import { createNumberedWallet } from '../fixtures/fixtures.js'

// The bytecode of Safe 1.4.1 comes from @safe-global/safe-contracts. The Solidity below, which imports ERC-7739 from
// solady, is compiled by solc.
const slowPackages = fileURLToPath(new URL('../../slow/node_modules/', import.meta.url))
const requireSlow = createRequire(`${slowPackages}x.js`)
/** Returns 66 bytes, because viem reads the last 32 bytes of each signature. */
const anySignature = (): string => `0x${'01'.repeat(66)}`
const coder = AbiCoder.defaultAbiCoder()

const SOURCE = `// SPDX-License-Identifier: MIT
pragma solidity ^0.8.4;
import {ERC1271} from "solady/src/accounts/ERC1271.sol";

contract Nested is ERC1271 {
  address private immutable owner;
  constructor(address owner_) { owner = owner_; }
  function _erc1271Signer() internal view override returns (address) { return owner; }
  function _domainNameAndVersion() internal pure override returns (string memory, string memory) { return ("Nested", "1"); }
}

// Returns the magic value of EIP-1271 for every call, in a result of "length" bytes. With length 0 it never returns.
contract Answer {
  uint256 private immutable length;
  constructor(uint256 length_) { length = length_; }
  fallback() external {
    uint256 bytesOut = length;
    assembly {
      for {} iszero(bytesOut) {} {}
      mstore(0, shl(224, 0x1626ba7e))
      mstore(32, 0)
      return(0, bytesOut)
    }
  }
}
`

interface Solc {
  compile(input: string, callbacks: { import: (path: string) => { contents: string } }): string
}

/** Compiles the contracts above, and returns a function from the name of a contract to its bytecode. */
function compileContracts(): (name: string) => string {
  const input = {
    language: 'Solidity',
    sources: { 'accounts.sol': { content: SOURCE } },
    settings: { optimizer: { enabled: true }, outputSelection: { '*': { '*': ['evm.bytecode.object'] } } }
  }
  const contents = (path: string): { contents: string } => ({ contents: readFileSync(slowPackages + path, 'utf8') })
  const solc = requireSlow('solc') as Solc
  const { contracts, errors = [] } = JSON.parse(solc.compile(JSON.stringify(input), { import: contents })) as {
    contracts?: Record<string, Record<string, { evm: { bytecode: { object: string } } }>>
    errors?: { severity: string; formattedMessage: string }[]
  }
  const fatal = errors.filter(({ severity }) => severity === 'error')
  if (contracts === undefined || fatal.length > 0)
    throw new Error(fatal.map((error) => error.formattedMessage).join('\n'))
  return (name) => `0x${contracts['accounts.sol']![name]!.evm.bytecode.object}`
}

/** Contract account and its `personal_sign`. */
export interface ContractAccount {
  address: `0x${string}`
  personalSign(message: string): string
}

export interface SafeAccount extends ContractAccount {
  /** Returns the signatures of some owners, in the order that Safe requires. */
  signBy(owners: readonly number[], message: string): string
  deploy(): Promise<void>
  /** Replaces an owner with the signatures of both owners. */
  swapOwner(old: number, next: number): Promise<void>
}

/** Factory of contract accounts on a chain. */
export interface AccountContracts {
  /**
   * Returns a Safe 1.4.1 whose owners all sign. Until it is deployed, its signatures contain its deployment (ERC-6492).
   */
  safe(owners: readonly number[]): SafeAccount
  /** Deploys an account that signs by ERC-7739. */
  nested(owner: number): Promise<ContractAccount>
  /**
   * Deploys an account that accepts every signature.
   *
   * @param length - bytes of its result; 0: the call never returns
   */
  answer(length: number): Promise<ContractAccount>
  /** Deploys an account that asks its caller to fetch a URL (EIP-3668). */
  fetching(url: string): Promise<ContractAccount>
}

/** Deploys the contracts that accounts need, and returns their factory. */
export async function accountContracts(chain: TestChain): Promise<AccountContracts> {
  const safeArtifact = (path: string): string => {
    const name = path.split('/').at(-1)!
    const file = `@safe-global/safe-contracts/build/artifacts/contracts/${path}.sol/${name}.json`
    return (requireSlow(file) as { bytecode: string }).bytecode
  }
  const singleton = await chain.deploy(safeArtifact('Safe'))
  const handler = await chain.deploy(safeArtifact('handler/CompatibilityFallbackHandler'))
  const factory = await chain.deploy(safeArtifact('proxies/SafeProxyFactory'))
  const getBytecode = compileContracts()
  const proxyCode = concat([safeArtifact('proxies/SafeProxy'), coder.encode(['address'], [singleton])])
  const safeAbi = new Interface([
    'function setup(address[],uint256,address,bytes,address,address,uint256,address)',
    'function swapOwner(address,address,address)',
    'function execTransaction(address,uint256,bytes,uint8,uint256,uint256,uint256,address,address,bytes)'
  ])
  const factoryAbi = new Interface(['function createProxyWithNonce(address,bytes,uint256)'])
  const zeroAddress = '0x0000000000000000000000000000000000000000'

  const safe = (owners: readonly number[]): SafeAccount => {
    const addresses = owners.map((owner) => createNumberedWallet(owner).address)
    const setup = [addresses, owners.length, zeroAddress, '0x', handler, zeroAddress, 0, zeroAddress]
    const initializer = safeAbi.encodeFunctionData('setup', setup)
    const salt = keccak256(concat([keccak256(initializer), coder.encode(['uint256'], [0])]))
    const address = getCreate2Address(factory, salt, keccak256(proxyCode)) as `0x${string}`
    const creation = factoryAbi.encodeFunctionData('createProxyWithNonce', [singleton, initializer, 0])
    const domain = { chainId: chain.chainId, verifyingContract: address }
    let isDeployed = false
    const signHash = (signers: readonly number[], hash: string): string => {
      const wallets = signers.map((signer) => new Wallet(createNumberedWallet(signer).privateKey))
      const sorted = wallets.sort((a, b) => (BigInt(a.address) < BigInt(b.address) ? -1 : 1))
      return concat(sorted.map((wallet) => wallet.signingKey.sign(hash).serialized))
    }
    const signBy = (signers: readonly number[], message: string): string => {
      const types = { SafeMessage: [{ name: 'message', type: 'bytes' }] }
      return signHash(signers, TypedDataEncoder.hash(domain, types, { message: hashMessage(message) }))
    }
    return {
      address,
      signBy,
      personalSign(message) {
        const signature = signBy(owners, message)
        if (isDeployed) return signature
        const wrapped = coder.encode(['address', 'bytes', 'bytes'], [factory, creation, signature])
        return concat([wrapped, `0x${'6492'.repeat(16)}`])
      },
      async deploy() {
        await chain.send(creation, factory)
        isDeployed = true
      },
      async swapOwner(old, next) {
        const place = owners.indexOf(old)
        const before = place === 0 ? '0x0000000000000000000000000000000000000001' : addresses[place - 1]
        const data = safeAbi.encodeFunctionData('swapOwner', [
          before,
          createNumberedWallet(old).address,
          createNumberedWallet(next).address
        ])
        const names = 'to value data operation safeTxGas baseGas gasPrice gasToken refundReceiver nonce'.split(' ')
        const kinds = 'address uint256 bytes uint8 uint256 uint256 uint256 address address uint256'.split(' ')
        const values = [address, 0, data, 0, 0, 0, 0, zeroAddress, zeroAddress, 0]
        const types = { SafeTx: names.map((name, at) => ({ name, type: kinds[at]! })) }
        const fields = Object.fromEntries(names.map((name, at) => [name, values[at]]))
        const signatures = signHash(owners, TypedDataEncoder.hash(domain, types, fields))
        await chain.send(safeAbi.encodeFunctionData('execTransaction', [...values.slice(0, 9), signatures]), address)
      }
    }
  }

  const deployAccount = async (name: string, type: string, value: unknown): Promise<`0x${string}`> =>
    (await chain.deploy(concat([getBytecode(name), coder.encode([type], [value])]))) as `0x${string}`

  return {
    safe,
    async nested(owner) {
      const address = await deployAccount('Nested', 'address', createNumberedWallet(owner).address)
      const domain = { name: 'Nested', version: '1', chainId: chain.chainId, verifyingContract: address }
      // ERC-7739, "PersonalSign": the domain contains the account.
      const types = { PersonalSign: [{ name: 'prefixed', type: 'bytes' }] }
      const { signingKey } = new Wallet(createNumberedWallet(owner).privateKey)
      return {
        address,
        personalSign(message) {
          const prefixed = `0x${Buffer.from(`\x19Ethereum Signed Message:\n${Buffer.byteLength(message)}${message}`).toString('hex')}`
          return signingKey.sign(TypedDataEncoder.hash(domain, types, { prefixed })).serialized
        }
      }
    },
    answer: async (length) => ({
      address: await deployAccount('Answer', 'uint256', length),
      personalSign: anySignature
    }),
    async fetching(url) {
      const address = `0x${'cc'.repeat(20)}` as const
      const error = new Interface(['error OffchainLookup(address, string[], bytes, bytes4, bytes)'])
      const lookup = error.encodeErrorResult('OffchainLookup', [address, [url], '0x', '0x1626ba7e', '0x'])
      const length = ((lookup.length - 2) / 2).toString(16).padStart(4, '0')
      // PUSH2 length, DUP1, PUSH1 12, PUSH1 0, CODECOPY, PUSH1 0, REVERT. It reverts with everything after these 12
      // bytes.
      await chain.setCode(address, concat([`0x61${length}80600c6000396000fd`, lookup]))
      return { address, personalSign: anySignature }
    }
  }
}
