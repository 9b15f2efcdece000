import type { Express } from 'express'
import request from 'supertest'
import { privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { createSiweMessage, type CreateSiweMessageParameters } from 'viem/siwe'
import { START_SECONDS } from './test-app.js'

/** The viem account of a number: the same key as that of `walletOf`. */
export function createAccount(number: number): PrivateKeyAccount {
  return privateKeyToAccount(`0x${number.toString(16).padStart(64, '0')}`)
}

/** Asks for a nonce over HTTP. */
export async function requestNonce(app: Express, path = '/siwe'): Promise<string> {
  const { body } = await request(app).post(`${path}/nonce`).expect(200)
  return (body as { nonce: string }).nonce
}

/** A message as viem writes it, for `service.example` on chain 30. */
export function createSiweText(
  account: Pick<PrivateKeyAccount, 'address'>,
  nonce: string,
  fields: Partial<CreateSiweMessageParameters> = {}
): string {
  return createSiweMessage({
    domain: 'service.example',
    address: account.address,
    uri: 'https://service.example/login',
    version: '1',
    chainId: 30,
    nonce,
    issuedAt: new Date(START_SECONDS * 1000),
    ...fields
  })
}

/** Requests a nonce and signs a message with it: the body of a `POST /siwe/verify` that is valid once. */
export async function createSignedSiwe(
  app: Express,
  account: PrivateKeyAccount,
  fields?: Partial<CreateSiweMessageParameters>
): Promise<{ message: string; signature: string }> {
  const message = createSiweText(account, await requestNonce(app), fields)
  return { message, signature: await account.signMessage({ message }) }
}
