import type { Setting } from './options.js'
import { askJson, loadCode, type Call } from '../wire/request.js'
import type { SessionRecord } from './session-keeper.js'

/** Loads the code of the device's key, which few pages use. @throws DidAuthClientError UNAVAILABLE */
export const loadDeviceKey = (): Promise<typeof import('./device-key.js')> => loadCode(() => import('./device-key.js'))

/** The user of a login, or the session of a refresh. */
export type DeviceUser = Pick<SessionRecord, 'did'> & Partial<SessionRecord>

/** Sends a login or refresh, with a proof of the device's key if client and service use one. */
export async function askAsDevice(setting: Setting, user: DeviceUser, call: Call): Promise<unknown> {
  return setting.deviceKey ? (await loadDeviceKey()).prove(setting, user, call) : askJson(setting, call)
}
