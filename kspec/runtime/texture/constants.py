"""CUDA's numbers for what textures are made of, by the names that the CUDA runtime gives them."""

cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat = 0, 1, 2
cudaResourceTypeArray, cudaResourceTypeMipmappedArray = 0, 1
cudaResourceTypeLinear, cudaResourceTypePitch2D = 2, 3
cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder = range(4)
cudaFilterModePoint, cudaFilterModeLinear = 0, 1
cudaReadModeElementType, cudaReadModeNormalizedFloat = 0, 1
cudaArrayDefault, cudaArrayLayered, cudaArraySurfaceLoadStore = 0, 1, 2
cudaArrayCubemap, cudaArrayTextureGather = 4, 8
