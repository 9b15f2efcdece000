import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import express from 'express'
import type { ContractVerifier } from 'express-did-auth'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { listFragments, writeFragments } from '../support/fixtures/document-code.js'
import { readDocument, root } from '../support/fixtures/documents.js'

const readme = readDocument('README.md')
const listCode = (file: string, language: string): string[] =>
  readDocument(file)
    .blocks.filter((block) => block.language === language)
    .map(({ code }) => code)
/** Returns an example as a document shows it, without the comment at its top. */
const withoutComments = (file: string): string => readFileSync(join(root, file), 'utf8').replaceAll(/^\/\/.*\n/gm, '')

describe("the documents' copies of examples", () => {
  it('show the quick start as the first block of the README, word for word', () => {
    const [first] = readme.blocks.filter(({ language }) => language === 'ts')
    expect(first!.code).toBe(readFileSync(join(root, 'examples/quickstart.ts'), 'utf8'))
  })

  it('show the client of examples/log-in.mjs', () =>
    expect(listCode('README.md', 'js')).toEqual([withoutComments('examples/log-in.mjs')]))

  it('show the wallet of examples/wallet.mjs', () =>
    expect(listCode('examples/README.md', 'js')).toEqual([withoutComments('examples/wallet.mjs')]))
})

describe("the documents' code", () => {
  const files = listFragments('.cache/documents')
  beforeAll(() => writeFragments(files))

  afterAll(async () => {
    jest.restoreAllMocks()
    const { server } = await import('../support/fixtures/document-names.js')
    server.closeAllConnections()
    server.close()
  })

  it.each(files.map(({ code, path }) => [code.split('\n')[0]!, path]))('runs: %s', async (_line, path) => {
    for (const name of ['log', 'warn'] as const) jest.spyOn(console, name).mockImplementation(() => undefined)
    await import(path)
  })

  it('calls a node with ethers: the magic value accepts, a revert refuses, other faults throw', async () => {
    const { app: node } = await import('../support/fixtures/document-names.js')
    const answers: Record<string, object> = {
      '0x01': { result: `0x1626ba7e${'0'.repeat(56)}` },
      '0x02': { result: `0x1626ba7e${'0'.repeat(54)}` },
      '0x03': { error: { code: -32_000, message: 'execution reverted' } },
      '0x04': { error: { code: -32_005, message: 'too many requests' } }
    }
    node.post('/', express.json(), (req, res) => {
      const { id, method, params } = req.body as { id: number; method: string; params: [{ data: string }] }
      const signatureIn = (data: string): string => `0x${data.slice(-64, -62)}`
      const others: Record<string, object> = { eth_chainId: { result: '0x2105' }, eth_getCode: { result: '0x60' } }
      res.json({ jsonrpc: '2.0', id, ...(others[method] ?? answers[signatureIn(params[0].data)]) })
    })
    const { path } = files.find(({ code }) => code.includes('const contracts'))!
    const { contracts } = (await import(path)) as { contracts: ContractVerifier }
    const address = `0x${'ab'.repeat(20)}` as const
    const ask = (signature: `0x${string}`): Promise<boolean> =>
      contracts.verifyMessage({ address, message: 'a text', signature })
    expect([await contracts.getChainId(), await contracts.getCode({ address })]).toEqual([8453, '0x60'])
    expect([await ask('0x01'), await ask('0x02'), await ask('0x03')]).toEqual([true, false, false])
    await expect(ask('0x04')).rejects.toMatchObject({ code: 'CALL_EXCEPTION' })
  })
})
