import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createContractWallets } from '../../src/adapters/contract-wallets.js'
import type { Client, ContractProof, ContractVerifier, ContractWallets } from '../../src/ports.js'
import { refusal } from '../support/fixtures/refusal.js'

const CHAIN = 30
const ADDRESS = '0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'
const COUNTERFACTUAL = `0x00${'6492'.repeat(16)}` as const
const client: Client = { network: '192.0.2.1', isGone: () => false }
const proof: ContractProof = { chainId: CHAIN, address: ADDRESS, message: 'text', signature: '0x01', client }
const round = (): Promise<void> => new Promise(setImmediate)

/** Answers of the node to each call, in order; the last one repeats. An error is thrown. */
type Answers = Record<'getChainId' | 'getCode' | 'verifyMessage', unknown[]>

let calls: string[]
let requests: unknown[]
let answers: Answers
let errors: Record<string, unknown>[]
let wallets: ContractWallets

beforeEach(() => {
  calls = []
  requests = []
  errors = []
  answers = { getChainId: [CHAIN], getCode: ['0x60'], verifyMessage: [true] }
  const answer = (name: keyof Answers) => async (request?: unknown) => {
    calls.push(name)
    requests.push(request)
    const list = answers[name]
    const value = list.length > 1 ? list.shift() : list[0]
    if (value instanceof Error) throw value
    return (await value) as never
  }
  const verifier: ContractVerifier = {
    getChainId: answer('getChainId'),
    getCode: answer('getCode'),
    verifyMessage: answer('verifyMessage')
  }
  const logger = { info: jest.fn(), warn: jest.fn(), error: (fields: Record<string, unknown>) => errors.push(fields) }
  wallets = createContractWallets(logger, { [CHAIN]: verifier })
})

afterEach(() => {
  jest.useRealTimers()
})

describe('createContractWallets: the verdict of a contract', () => {
  it('accepts a signature that the contract accepts: calls for chain id, code and verdict', async () => {
    await wallets.verify(proof)
    expect(calls).toEqual(['getChainId', 'getCode', 'verifyMessage'])
    expect(requests[2]).toEqual({ address: ADDRESS, message: 'text', signature: '0x01' })
  })

  it('supports only addresses on a configured chain', async () => {
    expect([30, 1].map((chainId) => wallets.accepts(chainId))).toEqual([true, false])
    await expect(wallets.verify({ ...proof, chainId: 1 })).rejects.toEqual(refusal('ERR_NETWORK'))
    expect(calls).toEqual([])
  })

  it.each([undefined, '0x'])('finds no contract if the code is %p', async (code) => {
    answers.getCode = [code]
    await expect(wallets.verify(proof)).rejects.toEqual(refusal('ERR_CONTRACT_ABSENT'))
    expect(calls).not.toContain('verifyMessage')
  })

  it('calls an undeployed contract if the signature deploys it', async () => {
    answers.getCode = [undefined]
    await wallets.verify({ ...proof, signature: COUNTERFACTUAL })
    expect(calls).toContain('verifyMessage')
  })

  it.each([false, 1, 'true', undefined, {}])(
    'refuses if the verdict is %p, after it has checked the code again',
    async (verdict) => {
      answers.verifyMessage = [verdict]
      await expect(wallets.verify(proof)).rejects.toEqual(refusal('ERR_CONTRACT_SIGNATURE'))
      expect(calls).toEqual(['getChainId', 'getCode', 'verifyMessage', 'getCode'])
    }
  )
})

describe('createContractWallets: an unavailable node', () => {
  const away = new Error('HTTP request failed.\n\nURL: https://rpc.example/s3cret')
  const unavailable = refusal('ERR_CHAIN')

  it.each<[string, Partial<Answers>]>([
    ['at the chain id', { getChainId: [away] }],
    ['at the code', { getCode: [away] }],
    ['at the verdict', { verifyMessage: [away] }],
    // viem's client catches that its node is unavailable, and returns false.
    ['at the verdict, which is false then, and after it', { verifyMessage: [false], getCode: ['0x60', away] }]
  ])('does not count as a refusal: %s', async (_when, faults) => {
    Object.assign(answers, faults)
    await expect(wallets.verify(proof)).rejects.toEqual(unavailable)
  })

  it('does not cache failures, and fetches the chain id only once', async () => {
    answers.getChainId = [away, CHAIN]
    await expect(wallets.verify(proof)).rejects.toEqual(unavailable)
    await wallets.verify(proof)
    await wallets.verify(proof)
    expect(calls.filter((name) => name === 'getChainId')).toHaveLength(2)
  })

  it('hides the URL of the node, which may contain a key, in the error', async () => {
    answers.getCode = [new TypeError('no answer of https://rpc.example/s3cret?key=s3cret at all\nhttps://s3cret')]
    const error = await wallets.verify(proof).catch((thrown: unknown) => thrown)
    expect((error as { cause: Error }).cause.message).toBe(
      "the call to the chain's node failed: no answer of (URL) at all"
    )
  })

  it('never uses a node that serves another chain, and logs that once', async () => {
    answers.getChainId = [31]
    await expect(wallets.verify(proof)).rejects.toEqual(unavailable)
    await expect(wallets.verify(proof)).rejects.toEqual(unavailable)
    expect(calls).toEqual(['getChainId'])
    expect(errors).toEqual([{ event: 'wrong-chain', expected: 30, reported: '31' }])
  })

  it.each(['getChainId', 'getCode', 'verifyMessage'] as const)('waits 5 s in total when %s hangs', async (name) => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] })
    answers[name] = [new Promise(() => undefined)]
    const verified = wallets.verify(proof)
    const refused = expect(verified).rejects.toEqual(unavailable)
    await round()
    await jest.advanceTimersByTimeAsync(4_999)
    const state = await Promise.race([verified.catch(() => 'ended'), round().then(() => 'waits')])
    await jest.advanceTimersByTimeAsync(1)
    await refused
    expect(state).toBe('waits')
  })

  it('fetches the chain id again after that call hung', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] })
    answers.getChainId = [new Promise(() => undefined), CHAIN]
    const refused = expect(wallets.verify(proof)).rejects.toEqual(unavailable)
    await jest.advanceTimersByTimeAsync(5_000)
    await refused
    await wallets.verify(proof)
  })
})

describe('createContractWallets: concurrent proofs', () => {
  it('runs 16 proofs per node, queues 256, and refuses the next with ERR_BUSY', async () => {
    const ends: ((verdict: boolean) => void)[] = []
    answers.verifyMessage = Array.from({ length: 272 }, () => new Promise((resolve) => ends.push(resolve)))
    const all = Array.from({ length: 272 }, () => wallets.verify(proof))
    await round()
    expect(calls.filter((name) => name === 'verifyMessage')).toHaveLength(16)
    await expect(wallets.verify(proof)).rejects.toEqual(refusal('ERR_BUSY'))
    ends.forEach((end) => end(true))
    await Promise.all(all)
    expect(calls.filter((name) => name === 'verifyMessage')).toHaveLength(272)
  })

  it('sends no call for a proof whose deadline passed in the queue', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] })
    let end: (code: string) => void = () => undefined
    const hung = new Promise((resolve) => (end = resolve))
    answers.getCode = [hung]
    const all = Promise.allSettled(Array.from({ length: 40 }, () => wallets.verify(proof)))
    await jest.advanceTimersByTimeAsync(5_000)
    const outcomes = await all
    expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true)
    end('0x60')
    await round()
    expect(calls).toEqual(['getChainId', ...Array<string>(16).fill('getCode')])
  })
})
