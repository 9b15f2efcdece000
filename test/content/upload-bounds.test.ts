import { describe, expect, it } from '@jest/globals'
import { readEnv } from '../../servers/shared/environment/read-env.js'
import { uploadRoom } from '../../servers/shared/upload/upload-room.js'

describe.each(['RELAY_MAX_FILE_BYTES', 'VAULT_MAX_CONTENT_BYTES'] as const)('%s', (name) => {
  it('is at most what the room for uploads has for one user', () => {
    expect(readEnv({ [name]: '67108864' }, 'relay', false)[name]).toBe(67_108_864)
    const sizeOfBody = 67_108_864 + '{"content":""}'.length
    expect(uploadRoom.take(sizeOfBody, 'a')).toBe(true)
    uploadRoom.give(sizeOfBody, 'a')
    expect(uploadRoom.take(67_108_864 + 65_536, 'a')).toBe(false)
  })

  it('is refused at start where it is more: buffers of six times such a size threw, which ended the process', () => {
    for (const value of ['67108865', '734003200', '999999999999999']) {
      expect(() => readEnv({ [name]: value }, 'relay', false)).toThrow(
        `${name}: received "${value}"; give at most 67108864`
      )
    }
    expect(() => readEnv({ [name]: '0' }, 'relay', false)).toThrow(`received "0"; give a number of bytes, at least 1`)
  })
})
