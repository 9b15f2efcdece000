import { Wallet } from 'ethers'
import { Device } from './demo-device.js'
import { createIssuer } from './demo-issuer.js'
import { startService } from './demo-service.js'
import { say, step } from './demo-step.js'

/** Shows sign up with a credential, login, refresh, a stolen token and logout, with an Express app. */
export async function showLogin(): Promise<void> {
  const issuer = await createIssuer()
  const service = await startService(issuer.did)
  console.log(`A service with DID login runs at ${service.url}`)
  const wallet = Wallet.createRandom()
  const phone = new Device(service.url, wallet)
  const laptop = new Device(service.url, wallet)
  const thief = new Device(service.url, Wallet.createRandom())
  console.log(`The user's wallet is ${phone.did}\n`)
  const credential = await issuer.emailCredential(phone.did, 'ada@example.org')
  const selfMade = await (await createIssuer()).emailCredential(thief.did, 'ada@example.org')

  await step(
    'The phone signs up without credentials: the service requires an e-mail credential',
    () => phone.signUp([]),
    401
  )
  await step('It signs up again, with a credential of a trusted issuer', () => phone.signUp([credential]))
  await step('The phone gets its profile: the token contains the e-mail address', () => phone.send('GET', '/profile'))
  await step('The laptop logs in with the same wallet, in another session', () => laptop.logIn())
  await step(
    'A thief signs up with that credential: its subject is another user',
    () => thief.signUp([credential]),
    401
  )
  await step('The thief issues a credential: its issuer is not trusted', () => thief.signUp([selfMade]), 401)

  const stolen = phone.refreshToken
  await step('The phone refreshes: this replaces the refresh token', () => phone.refresh())
  service.pass(60)
  say('a minute passes')
  await step('The thief uses the old refresh token: that session is revoked', () => thief.refresh(stolen), 401)
  await step("The phone's new refresh token is refused, too: the session is revoked", () => phone.refresh(), 401)
  await step("The laptop's session is not affected", () => laptop.refresh())
  await step('The phone logs in again', () => phone.logIn())
  await step('The laptop logs out', () => laptop.logOut())
  await step('Its refresh token no longer works', () => laptop.refresh(), 401)
  await step('The phone is still logged in', () => phone.send('GET', '/profile'))
  await service.stop()
}
